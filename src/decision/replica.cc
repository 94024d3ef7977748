#include "decision/replica.h"

#include <algorithm>
#include <utility>

namespace spillway {
namespace {

constexpr Duration kFactsAgeMax = std::chrono::seconds(10);
constexpr Duration kRestAfterRefusal = std::chrono::seconds(1);
constexpr int kFailedPagesMax = 3;

}  // namespace

void Replica::on_page(Instant now, const EngineFacts& facts) {
  capacity_.on_page(now, facts);
  facts_ = facts;
  page_at_ = now;
  failures_ = 0;
  failure_.clear();
  resting_until_.reset();
  unstarted_at_page_ = unstarted_;
  tokens_at_page_ = tokens_;
}

void Replica::on_page_failed(Instant /*now*/, std::string reason) {
  failure_ = std::move(reason);
  ++failures_;
  capacity_.on_lost();
}

void Replica::on_connect_failed(Instant now) {
  failure_ = "the connection was refused or timed out";
  resting_until_ = now + kRestAfterRefusal;
  capacity_.on_lost();
}

void Replica::on_admitted(std::int64_t tokens) {
  ++in_flight_;
  ++unstarted_;
  tokens_ += tokens;
}

void Replica::on_finished(std::int64_t tokens, bool started) {
  --in_flight_;
  tokens_ -= tokens;
  if (!started) {
    --unstarted_;
  }
}

bool Replica::reachable(Instant now) const {
  if (resting_until_ && now < *resting_until_) {
    return false;
  }
  return failures_ < kFailedPagesMax;
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
  if (!capacity || !facts_fresh(now) || !facts_->kv_usage) {
    return std::nullopt;
  }
  const double since = static_cast<double>(tokens_ - tokens_at_page_);
  return std::max(0.0, *facts_->kv_usage * *capacity + since);
}

double Replica::waiting(Instant now) const {
  if (!facts_fresh(now) || !facts_->waiting) {
    return 0;
  }
  return std::max(0.0, *facts_->waiting + (unstarted_ - unstarted_at_page_));
}

}  // namespace spillway
