#pragma once
// How many requests the gateway may send again: at most a tenth of the successes of the last minute
// and a few besides, over all pools. Without it, retries multiply the load of an engine that fails
// because of its load (Google SRE book, "Handling overload": per-client retry budget). Pure; owned
// by the data-path strand.

#include <array>
#include <cstdint>

#include "base/time.h"

namespace spillway {

class RetryBudget {
 public:
  static constexpr double kShare = 0.1;  // of recent successes
  static constexpr int kAlways = 10;     // retries a minute that need no successes

  void on_success(Instant now) { ++at(now).successes; }
  // Takes one retry where the budget has one.
  bool take(Instant now);
  // Retries that could be taken now.
  std::int64_t left(Instant now) const;

 private:
  struct Second {
    std::int64_t number = -1;  // seconds since the clock's origin
    std::int64_t successes = 0;
    std::int64_t retries = 0;
  };

  Second& at(Instant now);

  std::array<Second, 60> seconds_;
};

}  // namespace spillway
