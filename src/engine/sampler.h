#pragma once
// Chooses the next token of one sequence from its logits: greedy, or at random by temperature,
// top-k (Fan et al., 2018) and top-p (Holtzman et al., 2020), in this order. Its randomness is its
// own, so its choices do not depend on the batch. Pure; one owner.

#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "engine/sampler_options.h"
#include "prompt/token.h"

namespace spillway {

// Fails, naming the option, when one is out of range.
Status check_sampler_options(const SamplerOptions& options);

// What choosing needs besides, reusable by all samplers of one thread.
struct SamplerScratch {
  struct Candidate {
    float logit = 0;
    TokenId token = 0;
    double weight = 0;  // e^((logit - best) / temperature)
  };
  std::vector<Candidate> candidates;
  std::vector<Candidate> all;
};

class Sampler {
 public:
  // REQUIRES: check_sampler_options(options) is ok.
  explicit Sampler(const SamplerOptions& options);

  // Of equal logits the smallest token comes first; a logit that is no number is never chosen
  // unless all are, which gives token 0. REQUIRES: logits is not empty.
  TokenId choose(std::span<const float> logits, SamplerScratch& scratch);

 private:
  SamplerOptions options_;
  Rng rng_;
};

}  // namespace spillway
