#include "decision/replica.h"

#include <algorithm>
#include <utility>

namespace spillway {
namespace {

constexpr Duration kFactsAgeMax = std::chrono::seconds(10);

}  // namespace

bool Replica::on_page(Instant now, const EngineFacts& facts, Duration no_progress_timeout,
                      Rng& rng) {
  capacity_.on_page(now, facts);
  facts_ = facts;
  page_at_ = now;
  page_failure_.clear();
  unstarted_at_page_ = unstarted_;
  tokens_at_page_ = tokens_;
  return health_.on_page(now, facts, no_progress_timeout, rng);
}

void Replica::on_page_failed(Instant now, const std::string& reason, Rng& rng) {
  page_failure_ = reason;
  capacity_.on_lost();
  health_.on_page_failed(now, reason, rng);
}

void Replica::on_refused(Instant now, Rng& rng) {
  capacity_.on_lost();
  health_.on_refused(now, rng);
}

bool Replica::on_admitted(std::int64_t tokens, double work) {
  ++in_flight_;
  ++unstarted_;
  tokens_ += tokens;
  work_ += work;
  return health_.on_admitted();
}

void Replica::on_first_token(Instant now, double work) {
  --unstarted_;
  work_ -= work;
  health_.on_token(now);
}

void Replica::on_tokens(Instant now, std::int64_t tokens, double work) {
  tokens_ += tokens;
  work_ -= work;
  health_.on_token(now);
}

void Replica::on_finished(std::int64_t tokens, double work_left, bool started) {
  --in_flight_;
  tokens_ -= tokens;
  work_ -= work_left;
  if (!started) {
    --unstarted_;
  }
  if (in_flight_ == 0) {
    work_ = 0;  // what rounding left
  }
}

std::string Replica::failure(Instant now) const {
  const std::string health = health_.reason(now);
  return health.empty() ? page_failure_ : health;
}

bool Replica::facts_fresh(Instant now) const {
  return page_at_ && now - *page_at_ <= kFactsAgeMax;
}

std::optional<double> Replica::kv_tokens_capacity(std::optional<std::int64_t> stated) const {
  if (stated) {
    return static_cast<double>(*stated);
  }
  if (facts_ && facts_->kv_capacity_tokens && *facts_->kv_capacity_tokens > 0) {
    return static_cast<double>(*facts_->kv_capacity_tokens);
  }
  return std::nullopt;
}

std::optional<double> Replica::kv_tokens_held(Instant now,
                                              std::optional<std::int64_t> stated_capacity) const {
  const std::optional<double> capacity = kv_tokens_capacity(stated_capacity);
  if (!capacity || !facts_ || !facts_fresh(now) || !facts_->kv_usage) {
    return std::nullopt;
  }
  const double since = static_cast<double>(tokens_ - tokens_at_page_);
  return std::max(0.0, *facts_->kv_usage * *capacity + since);
}

double Replica::waiting(Instant now) const {
  if (!facts_ || !facts_fresh(now) || !facts_->waiting) {
    return 0;
  }
  return std::max(0.0, *facts_->waiting + (unstarted_ - unstarted_at_page_));
}

}  // namespace spillway
