#include "decision/pool.h"

#include <algorithm>
#include <array>
#include <utility>

namespace spillway {
namespace {

constexpr std::size_t kChangesKept = 32;
constexpr double kSmoothing = 0.05;  // weight of one new observation in the smoothed means

void smooth(double& mean, double observed) {
  mean += kSmoothing * (observed - mean);
}

Capacity::Options capacity_options(const PoolConfig& config) {
  return {.prompt_token_cost = config.prompt_token_cost, .fixed = config.capacity};
}

}  // namespace

Pool::Pool(PoolConfig config, std::shared_ptr<const Policy> policy, std::uint64_t seed)
    : config_(std::move(config)),
      policy_(std::move(policy)),
      rng_(seed),
      demand_(policy_->pressure.window) {
  for (const ReplicaConfig& replica : config_.replicas) {
    replicas_.emplace_back(replica.address(), capacity_options(config_));
  }
}

void Pool::reconfigure(PoolConfig config, std::shared_ptr<const Policy> policy) {
  std::vector<Replica> kept;
  for (const ReplicaConfig& wanted : config.replicas) {
    Replica* known = replica_named(wanted.address());
    kept.push_back(known != nullptr ? std::move(*known)
                                    : Replica(wanted.address(), capacity_options(config)));
    kept.back().capacity().set_options(capacity_options(config));
  }
  replicas_ = std::move(kept);
  config_ = std::move(config);
  policy_ = std::move(policy);
  demand_.set_window(policy_->pressure.window);
}

const Rung* Pool::rung(std::size_t level) const {
  return level == 0 || level > policy_->rungs.size() ? nullptr : &policy_->rungs[level - 1];
}

Replica* Pool::replica_named(const std::string& address) {
  const auto it = std::find_if(replicas_.begin(), replicas_.end(),
                               [&](const Replica& r) { return r.address() == address; });
  return it == replicas_.end() ? nullptr : &*it;
}

Replica* Pool::least_loaded(Instant now, const std::string* except) {
  Replica* best = nullptr;
  for (Replica& replica : replicas_) {
    if (!replica.reachable(now) || (except != nullptr && replica.address() == *except)) {
      continue;
    }
    if (best == nullptr || replica.tokens_in_flight() < best->tokens_in_flight()) {
      best = &replica;
    }
  }
  return best;
}

Duration Pool::jittered(Duration retry_after) {
  // +-25 %: callers that were refused together must not come back together.
  return from_seconds(to_seconds(retry_after) * rng_.uniform(0.75, 1.25));
}

Price Pool::price(const RequestPlan& plan, std::optional<std::int64_t> asked) const {
  if (plan.shed) {
    return {};
  }
  const std::optional<std::int64_t> limit = plan.max_tokens ? plan.max_tokens : asked;
  const double prompt = static_cast<double>(plan.prompt_tokens) * prompt_ratio_;
  const double output = lengths_.expected(limit.value_or(config_.default_max_tokens));
  return {.work = prompt * config_.prompt_token_cost + output,
          .kv_token_seconds = (prompt + output / 2) * output * token_seconds_};
}

void Pool::count_demand(Instant now, const RequestFacts& facts) {
  std::array<Price, kLevelsMax> by_level{};
  for (std::size_t k = 0; k < levels(); ++k) {
    by_level[k] = price(plan_request(facts, rung(k)), facts.max_tokens);
  }
  demand_.on_arrival(now, std::span(by_level).first(levels()));
}

Verdict Pool::admit(Instant now, const RequestFacts& facts) {
  count_demand(now, facts);
  const int level = ladder_.level();
  RequestPlan plan = plan_request(facts, rung(static_cast<std::size_t>(level)));
  if (plan.shed) {
    return Refused{.cause = Refused::Cause::kShed,
                   .level = level,
                   .retry_after = jittered(plan.retry_after),
                   .actions = std::move(plan.actions)};
  }
  Replica* replica = least_loaded(now, nullptr);
  if (replica == nullptr) {
    return Refused{.cause = Refused::Cause::kNobodyThere,
                   .level = level,
                   .retry_after = jittered(std::chrono::seconds(2))};
  }
  if (running_.size() >= static_cast<std::size_t>(config_.max_in_flight)) {
    return Refused{.cause = Refused::Cause::kFull,
                   .level = level,
                   .retry_after = jittered(std::chrono::seconds(5))};
  }
  const Price cost = price(plan, facts.max_tokens);
  smooth(work_mean_, cost.work);
  const auto prompt =
      static_cast<std::int64_t>(static_cast<double>(plan.prompt_tokens) * prompt_ratio_);
  smooth(tokens_mean_,
         static_cast<double>(prompt) + lengths_.expected(plan.max_tokens.value_or(
                                           facts.max_tokens.value_or(config_.default_max_tokens))));
  replica->on_admitted(prompt);
  const Ticket ticket = next_ticket_++;
  running_.emplace(ticket, Running{.replica = replica->address(),
                                   .prompt_tokens = prompt,
                                   .prompt_estimate = plan.prompt_tokens,
                                   .last_token = now});
  return Admitted{
      .ticket = ticket, .replica = replica->address(), .level = level, .plan = std::move(plan)};
}

std::optional<std::string> Pool::fail_over(Instant now, Ticket ticket) {
  const auto it = running_.find(ticket);
  if (it == running_.end()) {
    return std::nullopt;
  }
  Running& running = it->second;
  if (Replica* refused = replica_named(running.replica); refused != nullptr) {
    refused->on_connect_failed(now);
  }
  Replica* other = running.failed_over ? nullptr : least_loaded(now, &running.replica);
  if (other == nullptr) {
    return std::nullopt;
  }
  if (Replica* refused = replica_named(running.replica); refused != nullptr) {
    refused->on_finished(running.prompt_tokens, false);
  }
  running.failed_over = true;
  running.replica = other->address();
  other->on_admitted(running.prompt_tokens);
  return running.replica;
}

void Pool::first_token(Instant now, Ticket ticket) {
  const auto it = running_.find(ticket);
  if (it == running_.end() || it->second.first_token) {
    return;
  }
  it->second.first_token = now;
  if (Replica* replica = replica_named(it->second.replica); replica != nullptr) {
    replica->on_first_token();
  }
}

void Pool::more_tokens(Ticket ticket, std::int64_t tokens) {
  const auto it = running_.find(ticket);
  if (it == running_.end()) {
    return;
  }
  it->second.output_tokens += tokens;
  if (Replica* replica = replica_named(it->second.replica); replica != nullptr) {
    replica->on_tokens(tokens);
  }
}

void Pool::finished(Instant now, Ticket ticket, const Completion& completion) {
  const auto it = running_.find(ticket);
  if (it == running_.end()) {
    return;
  }
  const Running running = std::move(it->second);
  running_.erase(it);
  if (Replica* replica = replica_named(running.replica); replica != nullptr) {
    replica->on_finished(running.prompt_tokens + running.output_tokens,
                         running.first_token.has_value());
  }
  if (!completion.whole) {
    return;  // a reply that was cut says nothing of lengths or speed
  }
  lengths_.observe(completion.output_tokens, completion.cut_by_length);
  if (completion.prompt_tokens && running.prompt_estimate > 0) {
    const double ratio = static_cast<double>(*completion.prompt_tokens) /
                         static_cast<double>(running.prompt_estimate);
    smooth(prompt_ratio_, std::clamp(ratio, 0.25, 4.0));
  }
  if (running.first_token && completion.output_tokens > 1 && now > *running.first_token) {
    smooth(token_seconds_, to_seconds(now - *running.first_token) /
                               static_cast<double>(completion.output_tokens - 1));
  }
}

void Pool::on_page(Instant now, const std::string& replica, const EngineFacts& facts) {
  if (Replica* known = replica_named(replica); known != nullptr) {
    known->on_page(now, facts);
  }
}

void Pool::on_page_failed(Instant now, const std::string& replica, std::string reason) {
  if (Replica* known = replica_named(replica); known != nullptr) {
    known->on_page_failed(now, std::move(reason));
  }
}

std::optional<double> Pool::work_per_second(Instant now) const {
  double sum = 0;
  int known = 0;
  int serving = 0;
  for (const Replica& replica : replicas_) {
    if (!replica.reachable(now)) {
      continue;
    }
    ++serving;
    if (const auto capacity = replica.capacity().work_per_second(now)) {
      sum += *capacity;
      ++known;
    }
  }
  if (known == 0) {
    return std::nullopt;
  }
  return sum * serving / known;  // a replica not yet seen saturated is taken for an average one
}

Pressure Pool::pressure(Instant now) const {
  Pressure out;
  const std::optional<double> work = work_per_second(now);
  double kv_capacity = 0;
  double held = 0;
  double waiting = 0;
  bool held_known = false;
  for (const Replica& replica : replicas_) {
    if (!replica.reachable(now)) {
      continue;
    }
    waiting += replica.waiting(now);
    kv_capacity += replica.kv_tokens_capacity(config_.kv_tokens).value_or(0);
    if (const auto tokens = replica.kv_tokens_held(now, config_.kv_tokens)) {
      held += *tokens;
      held_known = true;
    }
  }
  kv_capacity *= policy_->pressure.kv_boundary;
  const auto level = static_cast<std::size_t>(ladder_.level());
  const Price present = demand_.rate(now, level);
  if (held_known && kv_capacity > 0) {
    out.held = (held + waiting * tokens_mean_) / kv_capacity;
  }
  if (work) {
    out.backlog_seconds = waiting * work_mean_ / *work;
  }
  const double drain = out.backlog_seconds / to_seconds(policy_->pressure.drain);
  for (std::size_t k = 0; k < levels(); ++k) {
    const Price offered = demand_.rate(now, k);
    const double compute = work ? offered.work / *work + drain : 0;
    const double kv = kv_capacity > 0 ? offered.kv_token_seconds / kv_capacity : 0;
    // What is held now was admitted at the present level; at level k it would be dearer by this
    // factor.
    const double dearer =
        present.kv_token_seconds > 0
            ? std::clamp(offered.kv_token_seconds / present.kv_token_seconds, 0.1, 10.0)
            : 1.0;
    const double stock = out.held.value_or(0) * dearer;
    out.by_level.push_back(std::max({compute, kv, stock}));
    if (k == 0) {
      out.compute = work ? std::optional(compute) : std::nullopt;
      out.kv = kv_capacity > 0 ? std::optional(kv) : std::nullopt;
      out.dominant = compute >= kv && compute >= stock ? "compute" : kv >= stock ? "kv" : "held";
    }
  }
  if (!out.compute && !out.kv && !out.held) {
    out.dominant = "unknown";
  }
  return out;
}

std::optional<LevelChange> Pool::tick(Instant now) {
  const Pressure seen = pressure(now);
  const bool fresh = std::any_of(replicas_.begin(), replicas_.end(),
                                 [&](const Replica& r) { return r.facts_fresh(now); });
  if (!fresh && !ladder_.pinned()) {
    return std::nullopt;  // blind: hold the level
  }
  std::optional<LevelChange> change = ladder_.update(now, *policy_, seen.by_level);
  if (change) {
    if (!ladder_.pinned()) {
      change->reason += " (" + seen.dominant + ")";
    }
    changes_.push_back(*change);
    if (changes_.size() > kChangesKept) {
      changes_.pop_front();
    }
  }
  return change;
}

bool Pool::serving(Instant now) const {
  return std::any_of(replicas_.begin(), replicas_.end(),
                     [&](const Replica& r) { return r.reachable(now); });
}

}  // namespace spillway
