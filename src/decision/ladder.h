#pragma once
// The degradation ladder of one pool: pressure in, level out. Level 0 is normal service; rung k of
// the policy is level k. It climbs when the demand, priced at what the present level gives, is at
// or above the next rung's threshold (not before dwell_up has passed since the last change, divided
// by the square of how far it is beyond); it descends one rung at a time, when the demand priced at
// the next lower level stays below this rung's threshold less its hysteresis. Because demand is
// priced before the savings of the level that is to be left, a level does not undo the load that
// raised it. Pure; owned by one strand.

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "base/time.h"
#include "policy/policy.h"

namespace spillway {

struct LevelChange {
  Instant at;
  int from = 0;
  int to = 0;
  std::string reason;
};

class Ladder {
 public:
  int level() const { return level_; }

  // Feeds the demand pressure priced at each level: pressure[k] is the share of capacity that the
  // offered load would take if every request got what level k gives. REQUIRES: pressure.size() ==
  // policy.rungs.size() + 1. A policy with fewer rungs than before lowers the level at once.
  // Returns the change, if there is one.
  std::optional<LevelChange> update(Instant now, const Policy& policy,
                                    std::span<const double> pressure);

  // Holds this level whatever the pressure, until unpinned. The level is capped by the policy's
  // rungs.
  void pin(std::optional<int> level) { pinned_ = level; }
  bool pinned() const { return pinned_.has_value(); }

 private:
  LevelChange move(Instant now, int to, std::string reason);

  int level_ = 0;
  std::optional<Instant> changed_;
  std::optional<Instant> calm_since_;  // since when the way down has been open
  std::optional<int> pinned_;
};

}  // namespace spillway
