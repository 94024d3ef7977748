#pragma once
// Offered load of one pool, priced at every level at once: what the requests of the last window
// (served, queued and refused alike) would cost a second if each got what level k gives.
// Exponentially fading sums, O(levels) an arrival. Pure; owned by one strand.

#include <array>
#include <cstddef>
#include <span>

#include "base/time.h"

namespace spillway {

// Level 0 and at most eight rungs.
constexpr std::size_t kLevelsMax = 9;

// What one request costs. `work`: generated-token equivalents. `kv_token_seconds`: KV tokens held
// times the seconds they are held.
struct Price {
  double work = 0;
  double kv_token_seconds = 0;
};

class Demand {
 public:
  explicit Demand(Duration window) : window_(window) {}

  void set_window(Duration window) { window_ = window; }

  // One arrival; by_level[k] is its price at level k, zero where level k refuses it.
  // REQUIRES: by_level.size() <= kLevelsMax; arrivals come in order of time.
  void on_arrival(Instant now, std::span<const Price> by_level);

  // Price a second at this level. REQUIRES: level < kLevelsMax.
  Price rate(Instant now, std::size_t level) const;

 private:
  double fade(Instant now) const;

  Duration window_;
  Instant last_;
  std::array<Price, kLevelsMax> sums_{};  // as of last_
};

}  // namespace spillway
