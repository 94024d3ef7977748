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
}

std::size_t OutputLengths::bucket_of(double tokens) {
  const double b = 4 * std::log2(std::max(tokens, 1.0));
  return std::min(static_cast<std::size_t>(b), kBuckets - 1);
}

double OutputLengths::upper_edge(std::size_t bucket) {
  return std::exp2(static_cast<double>(bucket + 1) / 4);
}

void OutputLengths::observe(std::int64_t tokens, bool censored) {
  for (std::size_t b = 0; b < kBuckets; ++b) {
    ended_[b] *= fade_;
    censored_[b] *= fade_;
  }
  const std::size_t b = bucket_of(static_cast<double>(tokens));
  (censored ? censored_ : ended_)[b] += 1;
}

double OutputLengths::expected(std::int64_t limit) const {
  double at_risk = 0;
  for (std::size_t b = 0; b < kBuckets; ++b) {
    at_risk += ended_[b] + censored_[b];
  }
  const auto end = static_cast<double>(std::max<std::int64_t>(limit, 0));
  double survival = 1;
  double sum = 0;  // the integral of the survival function from 0 to the limit
  double from = 0;
  for (std::size_t b = 0; b < kBuckets && from < end; ++b) {
    const double to = std::min(upper_edge(b), end);
    const double after =
        at_risk > 1e-9 ? survival * std::max(0.0, 1 - ended_[b] / at_risk) : survival;
    // Half of the bucket's ends are taken to lie before its middle: the trapezium.
    sum += (to - from) * (survival + after) / 2;
    survival = after;
    at_risk -= ended_[b] + censored_[b];
    from = upper_edge(b);
  }
  if (from < end) {
    sum += (end - from) * survival;
  }
  return std::min(sum, end);
}

}  // namespace spillway
