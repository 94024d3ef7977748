#pragma once
// One pool: the replicas that serve a model, the demand on them, and the ladder. It decides for
// each request which level's actions apply, whether it is admitted, and which replica serves it.
// Everything is a value in and a value out: facts and times go in, verdicts come out. Owned by the
// data-path strand.
//
//   page ─▶ replica facts ─┐
//   arrival ─▶ demand ─────┼─▶ pressure, priced at each level ─▶ ladder ─▶ level ─▶ plan of a
//   request completion ─▶ lengths ─┘

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "decision/demand.h"
#include "decision/ladder.h"
#include "decision/output_lengths.h"
#include "decision/replica.h"
#include "decision/request_plan.h"
#include "policy/config.h"
#include "policy/policy.h"

namespace spillway {

using Ticket = std::uint64_t;

struct Admitted {
  Ticket ticket = 0;
  std::string replica;  // host:port
  int level = 0;
  RequestPlan plan;
};

struct Refused {
  enum class Cause { kShed, kFull, kNobodyThere };
  Cause cause = Cause::kShed;
  int level = 0;
  Duration retry_after{};
  std::string actions;  // what the level did: "shed"; empty for the other causes
};

using Verdict = std::variant<Admitted, Refused>;

// What is known when a request has ended; tokens as the engine counted them, else our own counts.
struct Completion {
  std::optional<std::int64_t> prompt_tokens;
  std::int64_t output_tokens = 0;
  bool cut_by_length = false;  // finish_reason "length": the reply would have been longer
  bool whole = false;          // the engine ended the reply by itself
};

// Pressure of one pool, for people: each part is a share of capacity, unknown parts are absent.
struct Pressure {
  std::vector<double> by_level;   // what the ladder sees, per level
  std::optional<double> compute;  // offered work over learned capacity, undegraded
  std::optional<double> kv;       // offered KV over KV capacity, undegraded
  std::optional<double> held;     // KV held and waited for now, over its boundary
  double backlog_seconds = 0;     // work that waits, in seconds of the pool's capacity
  std::string dominant;           // "compute", "kv", "held" or "unknown"
};

class Pool {
 public:
  Pool(PoolConfig config, std::shared_ptr<const Policy> policy, std::uint64_t seed);

  const PoolConfig& config() const { return config_; }

  // Takes a new configuration and policy; facts, demand, level and running requests are kept.
  void reconfigure(PoolConfig config, std::shared_ptr<const Policy> policy);

  // Decides about one request. An Admitted must be ended by finished() exactly once.
  Verdict admit(Instant now, const RequestFacts& facts);

  // The replica of this ticket refused the connection: another one, once; nothing when there is
  // none.
  std::optional<std::string> fail_over(Instant now, Ticket ticket);

  void first_token(Instant now, Ticket ticket);
  void more_tokens(Ticket ticket, std::int64_t tokens);
  void finished(Instant now, Ticket ticket, const Completion& completion);

  void on_page(Instant now, const std::string& replica, const EngineFacts& facts);
  void on_page_failed(Instant now, const std::string& replica, std::string reason);

  // Lets the ladder look at the pressure. Call at least every second and after every page.
  std::optional<LevelChange> tick(Instant now);

  void pin_level(std::optional<int> level) { ladder_.pin(level); }

  int level() const { return ladder_.level(); }
  bool pinned() const { return ladder_.pinned(); }
  Pressure pressure(Instant now) const;
  const std::deque<LevelChange>& changes() const { return changes_; }  // the last 32, oldest first
  const std::vector<Replica>& replicas() const { return replicas_; }
  std::size_t in_flight() const { return running_.size(); }
  // Can at least one replica be reached?
  bool serving(Instant now) const;

 private:
  struct Running {
    std::string replica;
    std::int64_t prompt_tokens = 0;
    std::int64_t prompt_estimate = 0;
    std::int64_t output_tokens = 0;
    std::optional<Instant> first_token;
    Instant last_token;
    bool failed_over = false;
  };

  std::size_t levels() const { return policy_->rungs.size() + 1; }
  const Rung* rung(std::size_t level) const;
  Price price(const RequestPlan& plan, std::optional<std::int64_t> asked) const;
  void count_demand(Instant now, const RequestFacts& facts);
  Replica* replica_named(const std::string& address);
  Replica* least_loaded(Instant now, const std::string* except);
  Duration jittered(Duration retry_after);
  std::optional<double> work_per_second(Instant now) const;

  PoolConfig config_;
  std::shared_ptr<const Policy> policy_;
  Rng rng_;
  std::vector<Replica> replicas_;
  Demand demand_;
  Ladder ladder_;
  OutputLengths lengths_;
  double prompt_ratio_ = 1;      // engine's prompt count over our estimate, smoothed
  double token_seconds_ = 0.03;  // seconds between two tokens of one reply, smoothed
  double work_mean_ = 100;       // work of one request as admitted, smoothed
  double tokens_mean_ = 300;     // KV tokens of one request as admitted, smoothed
  std::deque<LevelChange> changes_;
  std::unordered_map<Ticket, Running> running_;
  Ticket next_ticket_ = 1;
};

}  // namespace spillway
