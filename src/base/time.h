#pragma once
// Time as an argument. Pure code takes an Instant and never reads a clock; only the shell (net,
// host, main) turns the machine's clocks into these types. Virtual time starts at Instant{}.

#include <chrono>
#include <cstdint>

namespace spillway {

using Duration = std::chrono::nanoseconds;

// Tag of the monotonic clock. It has no now() on purpose.
struct MonotonicClock {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<MonotonicClock>;
  static constexpr bool is_steady = true;
};

// A point on the monotonic clock: for intervals and deadlines.
using Instant = MonotonicClock::time_point;

// A point of civil time (UTC): for logs, spans and HTTP dates only.
using WallTime = std::chrono::time_point<std::chrono::system_clock, Duration>;

// Seconds as a double, for rates and reports.
constexpr double to_seconds(Duration d) {
  return static_cast<double>(d.count()) * 1e-9;
}
constexpr double to_milliseconds(Duration d) {
  return static_cast<double>(d.count()) * 1e-6;
}
constexpr Duration from_seconds(double s) {
  return Duration{static_cast<std::int64_t>(s * 1e9)};
}

}  // namespace spillway
