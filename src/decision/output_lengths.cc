#include "decision/output_lengths.h"

#include <algorithm>
#include <cmath>

namespace spillway {

OutputLengths::OutputLengths(Options options) : fade_(std::exp(-1.0 / options.memory)) {
  // The prior is an exponential distribution: the least that can be said when only a mean is known.
  double below = 0;
  for (std::size_t b = 0; b < kBuckets; ++b) {
    const double up_to = 1 - std::exp(-upper_edge(b) / options.prior_mean);
    ended_[b] = options.prior_weight * (up_to - below);
    below = up_to;
  }
  make_table();
}

std::size_t OutputLengths::bucket_of(double tokens) {
  const double b = 4 * std::log2(std::max(tokens, 1.0));
  return std::min(static_cast<std::size_t>(b), kBuckets - 1);
}

double OutputLengths::upper_edge(std::size_t bucket) {
  static const auto kEdges = [] {
    std::array<double, kBuckets> edges{};
    for (std::size_t b = 0; b < kBuckets; ++b) {
      edges[b] = std::exp2(static_cast<double>(b + 1) / 4);
    }
    return edges;
  }();
  return kEdges[bucket];
}

void OutputLengths::observe(std::int64_t tokens, bool censored) {
  constexpr int kFewSeen = 64;
  constexpr int kMade = 16;
  for (std::size_t b = 0; b < kBuckets; ++b) {
    ended_[b] *= fade_;
    censored_[b] *= fade_;
  }
  const std::size_t b = bucket_of(static_cast<double>(tokens));
  (censored ? censored_ : ended_)[b] += 1;
  seen_ = std::min(seen_ + 1, kFewSeen);
  if (++not_in_table_ >= (seen_ < kFewSeen ? 1 : kMade)) {
    make_table();
  }
}

void OutputLengths::make_table() {
  not_in_table_ = 0;
  double at_risk = 0;
  for (std::size_t b = 0; b < kBuckets; ++b) {
    at_risk += ended_[b] + censored_[b];
  }
  survival_[0] = 1;
  integral_[0] = 0;
  for (std::size_t b = 0; b < kBuckets; ++b) {
    const double hazard = at_risk > 1e-9 ? std::min(ended_[b] / at_risk, 1.0) : 0;
    survival_[b + 1] = survival_[b] * (1 - hazard);
    // Half of the bucket's ends are taken to lie before its middle: the trapezium.
    integral_[b + 1] =
        integral_[b] + (upper_edge(b) - lower_edge(b)) * (survival_[b] + survival_[b + 1]) / 2;
    at_risk -= ended_[b] + censored_[b];
  }
}

double OutputLengths::expected(std::int64_t limit) const {
  const auto end = static_cast<double>(std::max<std::int64_t>(limit, 0));
  const double highest = upper_edge(kBuckets - 1);
  if (end >= highest) {
    return std::min(integral_[kBuckets] + (end - highest) * survival_[kBuckets], end);
  }
  const std::size_t b = bucket_of(end);
  const double inside = (end - lower_edge(b)) * (survival_[b] + survival_[b + 1]) / 2;
  return std::min(integral_[b] + inside, end);
}

}  // namespace spillway
