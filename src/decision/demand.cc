#include "decision/demand.h"

#include <cmath>

namespace spillway {

double Demand::fade(Instant now) const {
  return now > last_ ? std::exp(-to_seconds(now - last_) / to_seconds(window_)) : 1.0;
}

void Demand::on_arrival(Instant now, std::span<const Price> by_level) {
  const double f = fade(now);
  for (std::size_t k = 0; k < kLevelsMax; ++k) {
    const Price added = k < by_level.size() ? by_level[k] : Price{};
    sums_[k].work = sums_[k].work * f + added.work;
    sums_[k].kv_token_seconds = sums_[k].kv_token_seconds * f + added.kv_token_seconds;
  }
  if (now > last_) {
    last_ = now;
  }
}

Price Demand::rate(Instant now, std::size_t level) const {
  const double f = fade(now) / to_seconds(window_);
  return {.work = sums_[level].work * f, .kv_token_seconds = sums_[level].kv_token_seconds * f};
}

}  // namespace spillway
