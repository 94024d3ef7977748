#pragma once
// The cost model of a continuous-batching engine on given time: chunked prefill, paged KV,
// preemption by recompute, priorities. No tensors, no clock: advance(now) runs the steps that have
// ended by then. The same code stands behind the simulated server, the unit tests and the lab.
// Deterministic; owned by one strand.
//
// A step takes step_base + prefill tokens + decodes + KV read, as the profile prices them. At its
// end each decoding sequence has one more token, and each prefilling one its chunk. Before it
// begins, every block it will write is reserved; where there are too few, the sequence of the
// lowest class that has computed least is put back into the queue and computes everything again.

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "sim/profile.h"

namespace spillway {

using SimId = std::uint64_t;

struct SimRequest {
  SimId id = 0;  // unique
  std::int64_t prompt_tokens = 1;
  std::int64_t output_tokens = 1;
  int priority = 0;  // lower goes first, where the profile schedules by it
};

// One token of a sequence.
struct SimToken {
  SimId id = 0;
  Instant at;
  std::int64_t index = 0;  // 0 is the first
  bool last = false;
};

struct SimStats {
  int running = 0;
  int waiting = 0;
  double kv_usage = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t prompt_tokens = 0;  // of prompts computed, each once
  std::uint64_t generation_tokens = 0;
  std::uint64_t recomputed_tokens = 0;
};

class SimulatedEngine {
 public:
  explicit SimulatedEngine(SimProfile profile) : profile_(profile) {}

  // False when the request can never fit into the KV cache; it is not taken then.
  bool submit(Instant now, const SimRequest& request);
  // Takes effect at the end of the present step.
  void cancel(SimId id);
  // Runs up to `now` and appends the tokens made, in order of time.
  void advance(Instant now, std::vector<SimToken>& tokens);
  // When the present step ends; nothing when idle or hung.
  std::optional<Instant> next_event() const;

  // A hung engine makes no progress and still answers: its clocks stand until it goes on.
  void hang(Instant now);
  void go_on(Instant now);

  SimStats stats() const;
  const SimProfile& profile() const { return profile_; }

 private:
  struct Sequence {
    SimRequest request;
    std::uint64_t arrival = 0;
    std::int64_t computed = 0;  // tokens whose KV is there
    std::int64_t emitted = 0;
    std::int64_t blocks = 0;
    std::int64_t chunk = 0;  // tokens computed in the present step
    bool counted = false;    // its prompt stands in the totals
    bool cancelled = false;
  };
  using QueueKey = std::pair<int, std::uint64_t>;  // (priority, arrival)

  std::int64_t target(const Sequence& s) const { return s.request.prompt_tokens + s.emitted; }
  bool decoding(const Sequence& s) const { return s.emitted > 0 && s.computed + 1 == target(s); }
  std::int64_t blocks_for(std::int64_t tokens) const {
    return (tokens + profile_.block_tokens - 1) / profile_.block_tokens;
  }
  QueueKey key_of(const Sequence& s) const {
    return {profile_.priority_scheduling ? s.request.priority : 0, s.arrival};
  }
  void drop_cancelled();
  bool reserve(std::size_t index, std::int64_t tokens);
  void preempt(std::size_t index);
  void plan_step(Instant now);
  void plan_prefill(std::size_t index, std::int64_t& budget);
  void admit_waiting(std::int64_t& budget);
  void end_step(std::vector<SimToken>& tokens);

  SimProfile profile_;
  std::vector<Sequence> running_;
  std::map<QueueKey, Sequence> waiting_;
  std::unordered_map<SimId, QueueKey> waiting_keys_;
  std::int64_t blocks_used_ = 0;
  std::uint64_t arrivals_ = 0;
  std::optional<Instant> step_ends_;
  std::optional<Duration> hung_;  // what was left of the step when the engine hung
  SimStats totals_;
};

}  // namespace spillway
