#pragma once
// How the next token is chosen from the logits. A plain value; see Sampler.

#include <cstdint>

namespace spillway {

struct SamplerOptions {
  double temperature = 1.0;  // 0: the best token always (greedy); then the others do not matter
  int top_k = 0;             // only the k best tokens; 0: all
  double top_p = 1.0;        // only the best tokens that together have this share; 1: all
  std::uint64_t seed = 0;    // the same seed gives the same tokens, alone or in any batch
};

}  // namespace spillway
