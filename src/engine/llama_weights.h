#pragma once
// The tensors of a llama-architecture model, found by name and checked against its shape. Matrices
// are used in place; the few small vectors are copied. Must not outlive the file's bytes.

#include <vector>

#include "base/result.h"
#include "engine/gguf.h"
#include "engine/llama_shape.h"
#include "engine/weight_matrix.h"

namespace spillway {

struct LlamaLayer {
  std::vector<float> attention_norm;
  WeightMatrix query;
  WeightMatrix key;
  WeightMatrix value;
  WeightMatrix output;
  std::vector<float> ffn_norm;
  WeightMatrix gate;
  WeightMatrix up;
  WeightMatrix down;
};

struct LlamaWeights {
  WeightMatrix embedding;  // [vocabulary, width]
  std::vector<LlamaLayer> layers;
  std::vector<float> output_norm;
  WeightMatrix output;               // [vocabulary, width]; the embedding where the file ties them
  std::vector<float> rope_divisors;  // [head_dim / 2] of the rotary frequencies; empty: all are 1
};

// Sets shape.vocabulary. Fails, naming the tensor, when one is missing, has the wrong shape or
// type, or is one that we would have to compute with and do not know.
Result<LlamaWeights> read_llama_weights(const GgufFile& file, LlamaShape& shape);

}  // namespace spillway
