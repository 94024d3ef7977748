#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace spillway {
namespace {

using Candidates = std::vector<SamplerScratch::Candidate>;

// Below this a division by the temperature would only choose the best token, with overflows.
constexpr double kGreedyBelow = 1e-4;

TokenId best_token(std::span<const float> logits) {
  std::size_t best = 0;
  float most = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > most) {
      most = logits[i];
      best = i;
    }
  }
  return static_cast<TokenId>(best);
}

// Every token that has a logit, if there is a best one to measure them against.
void collect(std::span<const float> logits, double temperature, Candidates& candidates) {
  const float best = logits[static_cast<std::size_t>(best_token(logits))];
  candidates.clear();
  if (!std::isfinite(best)) {
    return;
  }
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) {
      continue;
    }
    const double below = static_cast<double>(logits[i]) - static_cast<double>(best);
    candidates.push_back({.logit = logits[i],
                          .token = static_cast<TokenId>(i),
                          .weight = std::exp(below / temperature)});
  }
}

double total_weight(const Candidates& candidates) {
  double total = 0;
  for (const auto& candidate : candidates) {
    total += candidate.weight;
  }
  return total;
}

// Keeps the best, in order.
void keep_best(Candidates& candidates, std::size_t count) {
  count = std::min(count, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count),
                    candidates.end(),
                    [](const SamplerScratch::Candidate& a, const SamplerScratch::Candidate& b) {
                      return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
                    });
  candidates.resize(count);
}

// Keeps the fewest best ones that together reach the share.
void keep_share(SamplerScratch& scratch, double share) {
  const double wanted = share * total_weight(scratch.candidates);
  scratch.all = scratch.candidates;
  // Few tokens carry nearly all of it: sort a few, and more only where they do not reach.
  for (std::size_t count = 64;; count *= 8) {
    keep_best(scratch.candidates, count);
    double reached = 0;
    for (std::size_t i = 0; i < scratch.candidates.size(); ++i) {
      reached += scratch.candidates[i].weight;
      if (reached >= wanted) {
        scratch.candidates.resize(i + 1);
        return;
      }
    }
    if (scratch.candidates.size() == scratch.all.size()) {
      return;
    }
    scratch.candidates = scratch.all;
  }
}

TokenId draw(const Candidates& candidates, double uniform) {
  double left = uniform * total_weight(candidates);
  for (const auto& candidate : candidates) {
    left -= candidate.weight;
    if (left < 0) {
      return candidate.token;
    }
  }
  return candidates.back().token;
}

}  // namespace

Status check_sampler_options(const SamplerOptions& options) {
  if (!(options.temperature >= 0.0) || options.temperature > 100.0) {
    return Error{ErrorCode::kInvalid,
                 fmt::format("temperature is {}; 0 to 100 are possible", options.temperature)};
  }
  if (!(options.top_p > 0.0) || options.top_p > 1.0) {
    return Error{ErrorCode::kInvalid,
                 fmt::format("top_p is {}; more than 0 and up to 1 are possible", options.top_p)};
  }
  if (options.top_k < 0) {
    return Error{ErrorCode::kInvalid,
                 fmt::format("top_k is {}; 0 (all) and more are possible", options.top_k)};
  }
  return Ok{};
}

Sampler::Sampler(const SamplerOptions& options) : options_(options), rng_(options.seed) {}

TokenId Sampler::choose(std::span<const float> logits, SamplerScratch& scratch) {
  if (options_.temperature < kGreedyBelow || options_.top_k == 1) {
    return best_token(logits);
  }
  collect(logits, options_.temperature, scratch.candidates);
  if (scratch.candidates.empty()) {
    return best_token(logits);
  }
  if (options_.top_k > 0) {
    keep_best(scratch.candidates, static_cast<std::size_t>(options_.top_k));
  }
  if (options_.top_p < 1.0) {
    keep_share(scratch, options_.top_p);
  }
  return draw(scratch.candidates, rng_.uniform());
}

}  // namespace spillway
