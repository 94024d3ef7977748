#include "decision/replica_health.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kFirstBackoff = seconds(1);
constexpr Duration kBackoffMax = seconds(30);
constexpr Duration kFirstRest = milliseconds(250);
constexpr Duration kRestAfterFailure = seconds(1);  // where others can take its place
constexpr Duration kOwnRestMax = seconds(8);
constexpr int kFirstLimit = 2;
constexpr int kLimitMax = 64;  // beyond it, the limit is lifted

Duration jittered(Duration d, Rng& rng) {
  return from_seconds(to_seconds(d) * rng.uniform(0.75, 1.25));
}

}  // namespace

void ReplicaHealth::go_down(Instant now, std::string reason, Evidence evidence, Rng& rng) {
  backoff_ = down_ || limit_ > 0 ? std::min(2 * std::max(backoff_, kFirstBackoff), kBackoffMax)
                                 : kFirstBackoff;
  down_ = true;
  down_softly_ = evidence == Evidence::kSoft;
  reason_ = std::move(reason);
  probing_ = false;
  limit_ = 0;
  probe_at_ = now + jittered(backoff_, rng);
}

bool ReplicaHealth::on_page(Instant now, const EngineFacts& facts, Duration no_progress_timeout,
                            Rng& rng) {
  failed_pages_ = 0;
  std::optional<double> counter;
  for (const auto& total :
       {facts.generation_tokens_total, facts.prompt_tokens_total, facts.steps_total}) {
    if (total) {
      counter = counter.value_or(0) + *total;
    }
  }
  if (!counter) {
    counter_ = -1;
    return true;
  }
  const bool restarted = counter_ >= 0 && *counter < counter_;
  if (restarted && !down_) {
    limit_ = kFirstLimit;  // its caches are cold
    backoff_ = kFirstBackoff;
  }
  const bool moved = *counter != counter_;
  counter_ = *counter;
  if (moved) {
    progress_at_ = now;
  }
  if (down_ && !probing_ && !down_softly_ && (moved || !hung_)) {
    probe_at_ = now;  // somebody is there again, or moves again: worth a try at once
  }
  if (moved || facts.running.value_or(0) <= 0) {
    stuck_since_.reset();
  } else if (!stuck_since_) {
    stuck_since_ = now;
  }
  look_for_progress(now, no_progress_timeout, rng);
  return !restarted;
}

void ReplicaHealth::look_for_progress(Instant now, Duration timeout, Rng& rng) {
  if ((down_ && !probing_) || !stuck_since_ || now - *stuck_since_ < timeout) {
    return;
  }
  go_down(now,
          fmt::format("hangs: requests run and no token came for {:.1f} s",
                      to_seconds(now - *stuck_since_)),
          Evidence::kHard, rng);
  hung_ = true;
  ++hangs_;
}

void ReplicaHealth::on_page_failed(Instant now, const std::string& reason, Rng& rng) {
  if (++failed_pages_ >= kFailedPagesMax && !down_) {
    go_down(now, "no metrics page: " + reason, Evidence::kHard, rng);
  }
}

void ReplicaHealth::on_refused(Instant now, Rng& rng) {
  go_down(now, "the connection was refused or not made in time", Evidence::kHard, rng);
}

void ReplicaHealth::succeed(bool probe) {
  if (down_ && !probe) {
    return;
  }
  failures_ = 0;
  rest_ = Duration{};
  probing_ = false;
  if (down_) {
    down_ = hung_ = false;
    stuck_since_.reset();
    reason_.clear();
    limit_ = kFirstLimit;
    return;
  }
  if (limit_ > 0) {
    limit_ = limit_ * 2 > kLimitMax ? 0 : limit_ * 2;
    backoff_ = limit_ == 0 ? Duration{} : backoff_;
  }
}

void ReplicaHealth::on_outcome(Instant now, const Attempt& attempt, Rng& rng) {
  switch (attempt.outcome) {
    case AttemptOutcome::kSuccess:
      succeed(attempt.probe);
      return;
    case AttemptOutcome::kBackpressure:
      // It is alive and says so; only how much it is sent changes.
      on_nothing(attempt.probe);
      failures_ = 0;
      if (now >= resting_until_) {  // many answers of one moment are one piece of news
        rest_ = rest_ == Duration{} ? kFirstRest : std::min(2 * rest_, kOwnRestMax);
      }
      if (attempt.retry_after) {
        asked_rest_until_ =
            std::max(asked_rest_until_, now + std::min(*attempt.retry_after, kRestMax));
      }
      resting_until_ = std::max({resting_until_, asked_rest_until_, now + jittered(rest_, rng)});
      return;
    case AttemptOutcome::kFailure:
      ++failures_;
      resting_until_ = std::max(resting_until_, now + kRestAfterFailure);
      if (down_ && !attempt.probe) {
        return;
      }
      if (down_) {
        go_down(now, std::exchange(reason_, {}), down_softly_ ? Evidence::kSoft : Evidence::kHard,
                rng);
      } else if (failures_ >= kFailuresMax) {
        go_down(now, fmt::format("{} attempts in a row failed", failures_), Evidence::kSoft, rng);
      } else if (limit_ > 0) {
        limit_ = kFirstLimit;
      }
      return;
  }
}

bool ReplicaHealth::admits(Instant now, int in_flight) const {
  if (down_) {
    return !probing_ && now >= probe_at_;
  }
  return now >= resting_until_ && (limit_ == 0 || in_flight < limit_);
}

std::optional<Instant> ReplicaHealth::back_at(Instant now) const {
  if (down_) {
    return std::max(now, probe_at_);
  }
  return now < resting_until_ ? std::optional(resting_until_) : std::nullopt;
}

std::string ReplicaHealth::reason(Instant now) const {
  if (down_) {
    return reason_;
  }
  if (now < resting_until_) {
    return fmt::format("rests for {:.1f} s: it said that it is full",
                       to_seconds(resting_until_ - now));
  }
  return limit_ > 0 ? fmt::format("returning: at most {} requests at once", limit_) : "";
}

}  // namespace spillway
