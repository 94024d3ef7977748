#pragma once
// What is known of one replica: its last metrics page, what we have admitted and seen finish since
// (dead reckoning), its learned capacity, and whether it can be reached. Pure; owned by one strand.

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "decision/capacity.h"
#include "signals/engine_facts.h"

namespace spillway {

class Replica {
 public:
  Replica(std::string address, Capacity::Options options)
      : address_(std::move(address)), capacity_(options) {}

  const std::string& address() const { return address_; }

  void on_page(Instant now, const EngineFacts& facts);
  void on_page_failed(Instant now, std::string reason);
  void on_connect_failed(Instant now);

  // Our own requests there: `tokens` is the prompt at admission and one for each token that came.
  void on_admitted(std::int64_t tokens);
  void on_first_token() { --unstarted_; }
  void on_tokens(std::int64_t tokens) { tokens_ += tokens; }
  void on_finished(std::int64_t tokens, bool started);

  // May a request be sent there? Unknown replicas may be tried; one that refused us rests for a
  // moment.
  bool reachable(Instant now) const;
  // A page not older than this is believed.
  bool facts_fresh(Instant now) const;

  int in_flight() const { return in_flight_; }
  std::int64_t tokens_in_flight() const { return tokens_; }
  const std::optional<EngineFacts>& facts() const { return facts_; }
  std::optional<Instant> page_at() const { return page_at_; }
  const std::string& failure() const { return failure_; }
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
  std::string address_;
  Capacity capacity_;
  std::optional<EngineFacts> facts_;
  std::optional<Instant> page_at_;
  std::string failure_;  // why the last page or connection failed; empty when it did not
  int failures_ = 0;
  std::optional<Instant> resting_until_;

  int in_flight_ = 0;
  int unstarted_ = 0;
  std::int64_t tokens_ = 0;
  int unstarted_at_page_ = 0;
  std::int64_t tokens_at_page_ = 0;
};

}  // namespace spillway
