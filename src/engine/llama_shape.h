#pragma once
// The sizes of a llama-architecture model, from a GGUF file's llama.* keys, checked: every later
// buffer is sized by them. A plain value.

#include <cstddef>

#include "base/result.h"
#include "engine/gguf.h"

namespace spillway {

struct LlamaShape {
  std::size_t layers = 0;
  std::size_t width = 0;   // of the residual stream
  std::size_t hidden = 0;  // of the feed-forward part
  std::size_t heads = 0;
  std::size_t kv_heads = 0;  // divides heads
  std::size_t head_dim = 0;  // a multiple of 16
  std::size_t vocabulary = 0;
  std::size_t context = 0;  // positions that the model was trained for
  double rope_base = 10000.0;
  float epsilon = 0;

  std::size_t query_width() const { return heads * head_dim; }
  std::size_t kv_width() const { return kv_heads * head_dim; }
};

// Fails, naming the key, when one is missing or out of range, or asks for what we do not compute.
Result<LlamaShape> read_llama_shape(const GgufFile& file);

}  // namespace spillway
