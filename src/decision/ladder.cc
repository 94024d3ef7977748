#include "decision/ladder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace spillway {

LevelChange Ladder::move(Instant now, int to, std::string reason) {
  LevelChange change{.at = now, .from = level_, .to = to, .reason = std::move(reason)};
  level_ = to;
  changed_ = now;
  calm_since_.reset();
  return change;
}

std::optional<LevelChange> Ladder::update(Instant now, const Policy& policy,
                                          std::span<const double> pressure) {
  const int top = static_cast<int>(policy.rungs.size());
  if (pinned_) {
    const int to = std::min(*pinned_, top);
    if (to == level_) {
      return std::nullopt;
    }
    return move(now, to, fmt::format("pinned to level {}", to));
  }
  if (level_ > top) {
    return move(now, top, fmt::format("the policy now has {} levels", top));
  }
  const auto level = static_cast<std::size_t>(level_);
  if (level_ < top && pressure[level] >= policy.rungs[level].enter) {
    calm_since_.reset();
    // A rung needs time to show its effect, so the next one waits; the further beyond the
    // threshold, the less.
    const double excess = pressure[level] / policy.rungs[level].enter;
    if (changed_ && to_seconds(now - *changed_) < to_seconds(policy.dwell_up) / (excess * excess)) {
      return std::nullopt;
    }
    return move(now, level_ + 1,
                fmt::format("demand at level {} is {:.2f} of capacity, at or above {:.2f}", level_,
                            pressure[level], policy.rungs[level].enter));
  }
  if (level_ == 0) {
    return std::nullopt;
  }
  const Rung& rung = policy.rungs[level - 1];
  const double below = rung.enter - rung.hysteresis;
  if (pressure[level - 1] >= below) {
    calm_since_.reset();
    return std::nullopt;
  }
  if (!calm_since_) {
    calm_since_ = now;
  }
  // The way down has to stay open for the whole dwell: one lull does not end an overload.
  if (now - *calm_since_ < policy.dwell_down) {
    return std::nullopt;
  }
  return move(
      now, level_ - 1,
      fmt::format("demand at level {} would be {:.2f} of capacity, below {:.2f} for {:.0f} s",
                  level_ - 1, pressure[level - 1], below, to_seconds(policy.dwell_down)));
}

}  // namespace spillway
