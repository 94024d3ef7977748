#pragma once
// `spillway engine logits` and `spillway engine tokenize`: the embedded model laid open, for
// comparing it with other implementations (tools/parity/run). Both read a JSON file, write a JSON
// file and serve nothing. Return the exit code: 0, or 1 with one line on stderr.

#include <string>

namespace spillway {

struct EngineInspection {
  std::string model_path;   // GGUF
  std::string input_path;   // JSON, see below
  std::string output_path;  // JSON, written whole at the end
  std::string chat_family;  // see ChatFormat::named; empty: the file's own
  int threads = 2;
};

// Input {"prompts": [{"name": "code", "tokens": [...], "from": N}]}: tokens[0 .. N-1] are the
// prompt, the rest is what the model is told to have said. Output {"prompts": [{"name": "code",
// "positions":
// [{"argmax": id, "top": [[id, logit], ...]}]}]}: what comes after tokens[N-1], tokens[N] ... , the
// ten best first, of equal logits the lower id.
int engine_logits(const EngineInspection& options);

// Input: a list whose items are texts, taken plainly, or {"messages": [{"role", "content"}]}, taken
// as the model's chat format writes them. Output: for each the list of its token ids.
int engine_tokenize(const EngineInspection& options);

}  // namespace spillway
