#pragma once
// The embedded engine: a llama-architecture transformer from a GGUF file that decodes several
// requests in one batch over a paged KV pool with a hard cap in bytes. One thread owns an Engine
// and drives it with step(); the matrix work is shared with worker threads that it keeps inside.
// A request's tokens depend on its Generation only, never on what else is in the batch.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/sampler_options.h"
#include "prompt/chat_format.h"
#include "prompt/token.h"
#include "prompt/tokenizer.h"

namespace spillway {

class LoadedModel;

using SequenceId = std::uint64_t;

struct Generation {
  std::vector<TokenId> prompt;  // at least one token
  int max_tokens = 1;           // at least 1; the prompt and these fit into context_length()
  SamplerOptions sampler;
  int priority = 0;         // lower first, as vLLM
  bool ignore_eos = false;  // goes on to max_tokens
};

enum class FinishReason {
  kStop,    // the model ended its reply
  kLength,  // max_tokens were generated
};

struct TokenEvent {
  SequenceId sequence = 0;
  TokenId token = 0;
  bool is_end = false;                 // the token that ended the reply: it has no text
  std::optional<FinishReason> finish;  // set on the last event of a sequence
};

// Gauges and counters since load(), for a metrics page.
struct EngineStats {
  int running = 0;
  int waiting = 0;
  std::int64_t kv_pages_used = 0;  // a page holds page_tokens tokens of ONE layer
  std::int64_t kv_pages_total = 0;
  std::int64_t kv_capacity_tokens = 0;  // tokens of all layers that the pool can hold
  int page_tokens = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t prompt_tokens = 0;  // computed; what a preemption computes again is not counted
  std::uint64_t generation_tokens = 0;
  std::uint64_t steps = 0;
};

struct EngineOptions {
  std::string model_path;
  std::int64_t kv_bytes = std::int64_t{256} << 20U;  // never exceeded
  int threads = 2;                                   // the owner's among them
  int max_running = 16;                              // sequences in one batch
  int max_waiting = 1024;                            // submit() refuses beyond
  int prefill_chunk = 128;                           // prompt tokens in one step
  std::string chat_family;                           // see ChatFormat::named; empty: the file's own
};

class Engine {
 public:
  // Fails with one line when the file cannot be read, is damaged, is no llama-architecture model,
  // lacks a tokenizer or chat template, or an option is out of range.
  static Result<std::unique_ptr<Engine>> load(const EngineOptions& options);

  // As load(), on a model that is in memory already; model_path and chat_family are not looked at.
  static Result<std::unique_ptr<Engine>> on_model(std::unique_ptr<const LoadedModel> model,
                                                  const EngineOptions& options);

  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Tokenizer& tokenizer() const;
  const ChatFormat& chat_format() const;

  // Tokens, prompt and reply together, that one request may use: the model's context, or what the
  // KV pool holds where that is less.
  int context_length() const;

  // general.name of the file, else its file name.
  std::string model_name() const;

  // Queues a request. Fails with kInvalid (empty prompt, unknown token, option out of range),
  // kTooLarge (can never fit) or kUnavailable (the waiting queue is full).
  Result<SequenceId> submit(Generation generation);

  // No event of the sequence comes any more, and its pages are free at once. Unknown and finished
  // ids are ignored.
  void cancel(SequenceId sequence);

  // Runs one batch: a token for each decoding request and one chunk of prompts. Appends to `out`
  // in order of admission. False when there was nothing to do.
  bool step(std::vector<TokenEvent>& out);

  EngineStats stats() const;

 private:
  struct Parts;
  explicit Engine(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace spillway
