#pragma once
// May a replica be sent requests? Judged by what it does, not by its /health: tokens that come,
// replies that end well. Three outcomes of an attempt count: success, backpressure (it said that it
// is full: send less for a while) and failure. A replica that is down is tried again by single real
// requests, further and further apart; after a success its limit doubles from two upward, so that a
// restarted engine is not buried. Pure; owned by its Replica.
//
//   serving ──3 failures, no progress, refused, no page──▶ down ──probe succeeds──▶ returning ──▶
//   serving
//      └──429/503/529──▶ resting ──its time──▶ serving

#include <cstdint>
#include <optional>
#include <string>

#include "base/rng.h"
#include "base/time.h"
#include "signals/engine_facts.h"

namespace spillway {

enum class AttemptOutcome { kSuccess, kBackpressure, kFailure };

class ReplicaHealth {
 public:
  static constexpr int kFailuresMax = 3;     // in a row
  static constexpr int kFailedPagesMax = 3;  // in a row
  static constexpr Duration kRestMax = std::chrono::seconds(60);

  // A page has come. True when it shows the same process as the page before, alive.
  bool on_page(Instant now, const EngineFacts& facts, Duration no_progress_timeout, Rng& rng);
  void on_page_failed(Instant now, const std::string& reason, Rng& rng);
  // The connection was refused or not made in time: nobody is there.
  void on_refused(Instant now, Rng& rng);
  // True when the request is a probe: say so when it ends.
  bool on_admitted() {
    if (down_) {
      probing_ = true;
      stuck_since_.reset();  // it has its own time to give a token
    }
    return down_;
  }
  void on_token(Instant now) {
    progress_at_ = now;
    stuck_since_.reset();
  }
  struct Attempt {
    AttemptOutcome outcome = AttemptOutcome::kSuccess;
    bool probe = false;  // late successes of the time before it went down do not bring it back
    std::optional<Duration> retry_after;  // what the replica itself asked for
  };
  void on_outcome(Instant now, const Attempt& attempt, Rng& rng);
  // An attempt has ended without telling anything, such as a caller that went away.
  void on_nothing(bool probe) { probing_ = probing_ && !probe; }

  // May one more request be sent, beside those in flight?
  bool admits(Instant now, int in_flight) const;
  // It does not admit for soft reasons only (failures in a row, a rest that it did not ask for), so
  // it is still better than nobody.
  bool better_than_nobody(Instant now) const {
    return down_ ? down_softly_ : now >= asked_rest_until_ && limit_ == 0;
  }
  bool down() const { return down_; }
  Instant probe_at() const { return probe_at_; }  // while it is down
  bool hung() const { return down_ && hung_; }
  int hangs() const { return hangs_; }  // how often it was found so
  // When a replica that does not admit now may be tried; nothing when it is only at its limit.
  std::optional<Instant> back_at(Instant now) const;
  // When it last gave a token, to us or, as its page says, to anybody.
  Instant progress_at() const { return progress_at_; }
  // Why it is down or held back, for people; empty when it serves.
  std::string reason(Instant now) const;

 private:
  enum class Evidence { kSoft, kHard };

  void go_down(Instant now, std::string reason, Evidence evidence, Rng& rng);
  void look_for_progress(Instant now, Duration timeout, Rng& rng);
  void succeed(bool probe);

  // Down, and the way back.
  bool down_ = false;
  bool down_softly_ = false;
  bool hung_ = false;
  int hangs_ = 0;
  std::string reason_;
  Instant probe_at_;
  Duration backoff_{};
  bool probing_ = false;
  int limit_ = 0;  // requests at once while returning; 0: no limit

  // Resting.
  Instant resting_until_;
  Instant asked_rest_until_;  // of Retry-After: this one is kept whoever suffers
  Duration rest_{};

  int failures_ = 0;
  int failed_pages_ = 0;
  Instant progress_at_;
  std::optional<Instant> stuck_since_;  // the first page on which requests ran and nothing moved
  double counter_ = -1;                 // of tokens, on the last page
};

}  // namespace spillway
