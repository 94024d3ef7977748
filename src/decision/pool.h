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
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "decision/affinity.h"
#include "decision/demand.h"
#include "decision/ladder.h"
#include "decision/output_lengths.h"
#include "decision/replica.h"
#include "decision/request_plan.h"
#include "decision/retry_budget.h"
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
  bool answered = false;       // it did what it was asked; a caller's 4xx too: a success of it
};

// How one attempt at a replica failed.
enum class AttemptFault {
  kRefused,       // the connection was refused or not made in time
  kDied,          // the connection ended before any byte of a reply
  kBackpressure,  // 429, 503, 529: it is full
  kFailed,        // another error, a broken or cut reply
  kTimeout,       // silence
};

// Where a request goes after a failed attempt.
struct Again {
  std::string replica;
  bool failover = false;  // moved from a replica that was not there; else a retry
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

  // Any living replica, the ladder and the pool's bound left aside: for the bypass. Ended likewise.
  Verdict admit_plainly(Instant now, const RequestFacts& facts);

  // An attempt has failed: the replica is judged by it. `retry_after`: what it asked for.
  void attempt_failed(Instant now, Ticket ticket, AttemptFault fault,
                      std::optional<Duration> retry_after = std::nullopt);
  // Another replica for a request that has shown its caller nothing yet; nothing when it has had
  // its share of attempts, the budget is empty or nobody else is there. A replica that was not
  // there is failed over once, for every class and without a budget.
  std::optional<Again> try_again(Instant now, Ticket ticket, AttemptFault fault,
                                 RetryBudget& budget);
  // When a refused caller should come back: the first resting replica's time, else the backlog's.
  Duration come_back_in(Instant now);

  void first_token(Instant now, Ticket ticket);
  void more_tokens(Instant now, Ticket ticket, std::int64_t tokens);
  void finished(Instant now, Ticket ticket, const Completion& completion);

  // True when the page shows the same living process as the page before.
  bool on_page(Instant now, const std::string& replica, const EngineFacts& facts);
  void on_page_failed(Instant now, const std::string& replica, const std::string& reason);

  // Content events after which even a running stream of this class is ended now.
  std::optional<std::int64_t> hard_budget(QosClass qos_class) const;

  // Lets the ladder look at the pressure. Call at least every second and after every page.
  std::optional<LevelChange> tick(Instant now);

  void pin_level(std::optional<int> level) { ladder_.pin(level); }

  int level() const { return ladder_.level(); }
  bool pinned() const { return ladder_.pinned(); }
  Pressure pressure(Instant now) const;
  const std::deque<LevelChange>& changes() const { return changes_; }  // the last 32, oldest first
  const std::vector<Replica>& replicas() const { return replicas_; }
  std::size_t in_flight() const { return running_.size(); }
  // How often this replica was found hanging. When it grows, requests that wait there have nothing
  // to wait for.
  int hangs(const std::string& replica) const;
  // Can at least one replica be reached?
  bool serving(Instant now) const;

 private:
  struct Running {
    QosClass qos_class = QosClass::kNormal;
    std::uint64_t replica = 0;  // its number
    std::vector<std::uint64_t> tried;
    std::int64_t prompt_tokens = 0;
    std::int64_t prompt_estimate = 0;
    std::int64_t output_tokens = 0;
    double prompt_work = 0;  // left of the prompt's work
    double output_work = 0;  // left of the reply's expected work
    Instant sent;
    std::optional<Instant> first_token;
    std::uint64_t conversation = 0;
    int retries_left = 0;
    bool failed_over = false;
    bool probe = false;  // sent to a replica that is down, to see
  };

  std::size_t levels() const { return policy_->rungs.size() + 1; }
  const Rung* rung(std::size_t level) const;
  double expected_output(const RequestPlan& plan, const RequestFacts& facts) const;
  Price price(const RequestPlan& plan, const RequestFacts& facts) const;
  void count_demand(Instant now, const RequestFacts& facts);
  Replica* replica_named(const std::string& address);
  const Replica* replica_named(const std::string& address) const;
  Replica* replica_numbered(std::uint64_t number);
  Replica* choose(Instant now, const Running& running);
  Replica* due_probe(Instant now, const Running& running);
  Replica* least_work(const Running& running, const std::function<bool(const Replica&)>& may);
  Verdict place(Instant now, const RequestFacts& facts, RequestPlan plan, int level);
  void settle(Running& running);
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
  Affinity affinity_;
  std::deque<LevelChange> changes_;
  std::unordered_map<Ticket, Running> running_;
  Ticket next_ticket_ = 1;
  std::uint64_t next_replica_ = 1;
};

}  // namespace spillway
