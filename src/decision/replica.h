#pragma once
// What is known of one replica: its last metrics page, what we have admitted and seen finish since
// (dead reckoning), the work that is still to come, its learned capacity and its health. Pure;
// owned by one strand.

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "decision/capacity.h"
#include "decision/replica_health.h"
#include "signals/engine_facts.h"

namespace spillway {

class Replica {
 public:
  // `number` is unique in the pool: a replica that was removed and named again is another one.
  Replica(std::uint64_t number, std::string address, Capacity::Options options)
      : number_(number), address_(std::move(address)), capacity_(options) {}

  std::uint64_t number() const { return number_; }
  const std::string& address() const { return address_; }

  // True when the page shows the same living process as the page before.
  bool on_page(Instant now, const EngineFacts& facts, Duration no_progress_timeout, Rng& rng);
  void on_page_failed(Instant now, const std::string& reason, Rng& rng);
  void on_refused(Instant now, Rng& rng);

  // Our own requests there. `tokens`: its prompt; `work`: what it is expected to cost.
  // True when the request is a probe of a replica that is down.
  bool on_admitted(std::int64_t tokens, double work);
  // `work`: what was done by it.
  void on_first_token(Instant now, double work);
  void on_tokens(Instant now, std::int64_t tokens, double work);
  // What it still held of both is given back.
  void on_finished(std::int64_t tokens, double work_left, bool started);

  // May a request be sent there now?
  bool admits(Instant now) const { return health_.admits(now, in_flight_); }
  const ReplicaHealth& health() const { return health_; }
  ReplicaHealth& health() { return health_; }
  // A page not older than this is believed.
  bool facts_fresh(Instant now) const;

  int in_flight() const { return in_flight_; }
  std::int64_t tokens_in_flight() const { return tokens_; }
  // Expected work of our requests there that is still to be done, in generated tokens.
  double work_left() const { return work_; }
  const std::optional<EngineFacts>& facts() const { return facts_; }
  std::optional<Instant> page_at() const { return page_at_; }
  // Why it is down or held back, or why its last page could not be read; empty when all is well.
  std::string failure(Instant now) const;
  const Capacity& capacity() const { return capacity_; }
  Capacity& capacity() { return capacity_; }

  // KV tokens held now: the page, carried forward by our own admissions and completions since.
  // Nothing while no believable page or no capacity is known.
  std::optional<double> kv_tokens_held(Instant now,
                                       std::optional<std::int64_t> stated_capacity) const;
  std::optional<double> kv_tokens_capacity(std::optional<std::int64_t> stated) const;
  // Requests waiting for their first token beyond those running, carried forward likewise.
  double waiting(Instant now) const;

 private:
  std::uint64_t number_;
  std::string address_;
  Capacity capacity_;
  std::optional<EngineFacts> facts_;
  std::optional<Instant> page_at_;
  std::string page_failure_;  // why the last page could not be read; empty when it could
  ReplicaHealth health_;

  int in_flight_ = 0;
  int unstarted_ = 0;
  std::int64_t tokens_ = 0;
  double work_ = 0;
  int unstarted_at_page_ = 0;
  std::int64_t tokens_at_page_ = 0;
};

}  // namespace spillway
