#pragma once
// What one replica can serve, learned from its own counters: while requests wait, the tokens it
// gets through a second are its capacity. Unit of work: one generated token; a prompt token costs
// `prompt_token_cost` of it. An old estimate is trusted less and less (it grows), so that a replica
// that was slow for an hour is tried again. Pure; owned by one strand.

#include <optional>

#include "base/time.h"
#include "signals/engine_facts.h"

namespace spillway {

class Capacity {
 public:
  struct Options {
    double prompt_token_cost = 0.25;
    std::optional<double> fixed;                 // work a second, when the operator states it
    Duration memory = std::chrono::seconds(20);  // saturated time after which a sample fades to 1/e
    Duration least_evidence =
        std::chrono::seconds(2);                // saturated time before an estimate is given
    Duration doubling = std::chrono::hours(1);  // unconfirmed, the estimate doubles in this time
  };

  explicit Capacity(Options options) : options_(options) {}

  // Feeds one reading of the replica's metrics page. Readings without the counters are ignored.
  void on_page(Instant at, const EngineFacts& facts);

  void set_options(Options options) { options_ = options; }

  // Forgets the counters' last values, not the estimate: call when the replica has gone.
  void on_lost() { last_.reset(); }

  // Work a second; nothing until the replica has been seen saturated.
  std::optional<double> work_per_second(Instant now) const;

 private:
  struct Reading {
    Instant at;
    double work;
    bool queueing;
  };

  Options options_;
  std::optional<Reading> last_;
  double work_ = 0;  // faded sums over saturated time
  double seconds_ = 0;
  Instant confirmed_;  // when the estimate was last fed
};

}  // namespace spillway
