#pragma once
// A tokenizer's vocabulary as a GGUF file spells it (keys tokenizer.ggml.*): the engine's loader
// fills it, Tokenizer::create checks it. A plain value.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "prompt/token.h"

namespace spillway {

// tokenizer.ggml.token_type
enum TokenType : std::int32_t {
  kNormalToken = 1,
  kUnknownToken = 2,
  kControlToken = 3,
  kUserDefinedToken = 4,
  kUnusedToken = 5,
  kByteToken = 6,
};

struct Vocabulary {
  std::string model;                // "gpt2": byte-level BPE, the only one supported
  std::string pre;                  // how text is cut before merging: "smollm", "gpt-2" ...
  std::vector<std::string> tokens;  // by id, in GPT-2's byte spelling ("Ġthe")
  std::vector<std::int32_t> types;  // by id, see TokenType; empty: all are normal
  std::vector<std::string> merges;  // "left right", best first
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> eot;
  bool add_bos = false;
};

}  // namespace spillway
