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
    replicas_.emplace_back(next_replica_++, replica.address(), capacity_options(config_));
  }
}

void Pool::reconfigure(PoolConfig config, std::shared_ptr<const Policy> policy) {
  std::vector<Replica> kept;
  for (const ReplicaConfig& wanted : config.replicas) {
    Replica* known = replica_named(wanted.address());
    kept.push_back(known != nullptr
                       ? std::move(*known)
                       : Replica(next_replica_++, wanted.address(), capacity_options(config)));
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
  const auto it = std::ranges::find(replicas_, address, &Replica::address);
  return it == replicas_.end() ? nullptr : &*it;
}

const Replica* Pool::replica_named(const std::string& address) const {
  const auto it = std::ranges::find(replicas_, address, &Replica::address);
  return it == replicas_.end() ? nullptr : &*it;
}

Replica* Pool::replica_numbered(std::uint64_t number) {
  const auto it = std::ranges::find(replicas_, number, &Replica::number);
  return it == replicas_.end() ? nullptr : &*it;
}

namespace {

bool was_tried(const std::vector<std::uint64_t>& tried, const Replica& replica) {
  return std::ranges::find(tried, replica.number()) != tried.end();
}

}  // namespace

// A replica that is down and may be looked at: somebody has to be the one who tries. Not a critical
// request, unless nobody else has come for long.
Replica* Pool::due_probe(Instant now, const Running& running) {
  constexpr Duration kLong = std::chrono::seconds(30);
  for (Replica& replica : replicas_) {
    const ReplicaHealth& health = replica.health();
    if (health.down() && replica.admits(now) && !was_tried(running.tried, replica) &&
        (running.qos_class != QosClass::kCritical || now - health.probe_at() > kLong)) {
      return &replica;
    }
  }
  return nullptr;
}

// The replica with the least work to do.
Replica* Pool::least_work(const Running& running, const std::function<bool(const Replica&)>& may) {
  Replica* best = nullptr;
  for (Replica& replica : replicas_) {
    if (may(replica) && !was_tried(running.tried, replica) &&
        (best == nullptr || replica.work_left() < best->work_left())) {
      best = &replica;
    }
  }
  return best;
}

Replica* Pool::choose(Instant now, const Running& running) {
  if (Replica* probe = due_probe(now, running)) {
    return probe;
  }
  const auto serves = [now](const Replica& r) { return r.admits(now) && !r.health().down(); };
  Replica* best = least_work(running, serves);
  if (best == nullptr) {
    best = least_work(running, [now](const Replica& r) { return r.admits(now); });
  }
  if (best == nullptr && running.tried.empty()) {
    best =
        least_work(running, [now](const Replica& r) { return r.health().better_than_nobody(now); });
  }
  const std::string* before =
      running.conversation == 0 ? nullptr : affinity_.replica_of(running.conversation);
  if (best == nullptr || before == nullptr || *before == best->address()) {
    return best;
  }
  // A conversation goes where its beginning is cached, where that saves more than it waits there.
  Replica* cached = replica_named(*before);
  const bool free = cached != nullptr && serves(*cached) && !was_tried(running.tried, *cached);
  return free && cached->work_left() <= best->work_left() + running.prompt_work ? cached : best;
}

Duration Pool::jittered(Duration retry_after) {
  // +-25 %: callers that were refused together must not come back together.
  return from_seconds(to_seconds(retry_after) * rng_.uniform(0.75, 1.25));
}

double Pool::expected_output(const RequestPlan& plan, const RequestFacts& facts) const {
  return facts.generates ? lengths_.expected(plan.max_tokens.value_or(
                               facts.max_tokens.value_or(config_.default_max_tokens)))
                         : 0;
}

Price Pool::price(const RequestPlan& plan, const RequestFacts& facts) const {
  if (plan.shed) {
    return {};
  }
  const double prompt = static_cast<double>(plan.prompt_tokens) * prompt_ratio_;
  const double output = expected_output(plan, facts);
  return {.work = prompt * config_.prompt_token_cost + output,
          .kv_token_seconds = (prompt + output / 2) * output * token_seconds_};
}

void Pool::count_demand(Instant now, const RequestFacts& facts) {
  std::array<Price, kLevelsMax> by_level{};
  for (std::size_t k = 0; k < levels(); ++k) {
    by_level[k] = price(plan_request(facts, rung(k)), facts);
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
                   .retry_after = jittered(std::max(plan.retry_after, come_back_in(now))),
                   .actions = std::move(plan.actions)};
  }
  if (running_.size() >= static_cast<std::size_t>(config_.max_in_flight) && serving(now)) {
    return Refused{
        .cause = Refused::Cause::kFull, .level = level, .retry_after = jittered(come_back_in(now))};
  }
  return place(now, facts, std::move(plan), level);
}

Verdict Pool::admit_plainly(Instant now, const RequestFacts& facts) {
  return place(now, facts, RequestPlan{.prompt_tokens = facts.prompt_tokens}, 0);
}

Verdict Pool::place(Instant now, const RequestFacts& facts, RequestPlan plan, int level) {
  const auto prompt =
      static_cast<std::int64_t>(static_cast<double>(plan.prompt_tokens) * prompt_ratio_);
  const double output = expected_output(plan, facts);
  Running running{.qos_class = facts.qos_class,
                  .prompt_tokens = prompt,
                  .prompt_estimate = plan.prompt_tokens,
                  .prompt_work = static_cast<double>(prompt) * config_.prompt_token_cost,
                  .output_work = output,
                  .sent = now,
                  .conversation = facts.conversation,
                  .retries_left = facts.retries};
  Replica* replica = choose(now, running);
  if (replica == nullptr) {
    // Full is what asks for less or says that it has its fill; nobody there is something else.
    const bool alive =
        std::ranges::any_of(replicas_, [](const Replica& r) { return !r.health().down(); });
    return Refused{.cause = alive ? Refused::Cause::kFull : Refused::Cause::kNobodyThere,
                   .level = level,
                   .retry_after = come_back_in(now)};
  }
  smooth(work_mean_, price(plan, facts).work);
  smooth(tokens_mean_, static_cast<double>(prompt) + output);
  running.replica = replica->number();
  running.tried = {replica->number()};
  running.probe = replica->on_admitted(prompt, running.prompt_work + running.output_work);
  const Ticket ticket = next_ticket_++;
  running_.emplace(ticket, std::move(running));
  return Admitted{
      .ticket = ticket, .replica = replica->address(), .level = level, .plan = std::move(plan)};
}

Duration Pool::come_back_in(Instant now) {
  std::optional<Instant> first;
  for (const Replica& replica : replicas_) {
    if (const auto at = replica.health().back_at(now)) {
      first = first ? std::min(*first, *at) : at;
    } else {
      first.reset();  // this one works: what is waited for is its work
      break;
    }
  }
  constexpr Duration kLeast = std::chrono::seconds(1);
  constexpr Duration kMost = std::chrono::seconds(60);
  const Duration wait = first ? *first - now : from_seconds(pressure(now).backlog_seconds);
  return std::clamp(wait, kLeast, kMost);
}

// Takes a running request's accounts away from its replica.
void Pool::settle(Running& running) {
  if (Replica* replica = replica_numbered(running.replica); replica != nullptr) {
    replica->on_finished(running.prompt_tokens + running.output_tokens,
                         running.prompt_work + running.output_work,
                         running.first_token.has_value());
  }
  running.replica = 0;
}

void Pool::attempt_failed(Instant now, Ticket ticket, AttemptFault fault,
                          std::optional<Duration> retry_after) {
  const auto it = running_.find(ticket);
  Replica* replica = it == running_.end() ? nullptr : replica_numbered(it->second.replica);
  if (replica == nullptr) {
    return;
  }
  ReplicaHealth& health = replica->health();
  ReplicaHealth::Attempt attempt{
      .outcome = AttemptOutcome::kFailure, .probe = it->second.probe, .retry_after = retry_after};
  if (fault == AttemptFault::kRefused) {
    replica->on_refused(now, rng_);
    return;
  }
  if (fault == AttemptFault::kTimeout && health.progress_at() > it->second.sent) {
    return;  // silence of a replica that serves others is load, not death
  }
  if (fault == AttemptFault::kBackpressure) {
    attempt.outcome = AttemptOutcome::kBackpressure;
  }
  health.on_outcome(now, attempt, rng_);
}

std::optional<Again> Pool::try_again(Instant now, Ticket ticket, AttemptFault fault,
                                     RetryBudget& budget) {
  const auto it = running_.find(ticket);
  if (it == running_.end()) {
    return std::nullopt;
  }
  Running& running = it->second;
  // Once without asking; a second replica that is not there costs a retry.
  const bool failover =
      !running.failed_over && (fault == AttemptFault::kRefused || fault == AttemptFault::kDied);
  if (!failover && running.retries_left <= 0) {
    return std::nullopt;
  }
  Replica* other = choose(now, running);
  if (other == nullptr || (!failover && !budget.take(now))) {
    return std::nullopt;
  }
  if (failover) {
    running.failed_over = true;
  } else {
    --running.retries_left;
  }
  settle(running);
  running.replica = other->number();
  running.tried.push_back(other->number());
  running.sent = now;
  running.probe =
      other->on_admitted(running.prompt_tokens, running.prompt_work + running.output_work);
  return Again{.replica = other->address(), .failover = failover};
}

void Pool::first_token(Instant now, Ticket ticket) {
  const auto it = running_.find(ticket);
  if (it == running_.end() || it->second.first_token) {
    return;
  }
  Running& running = it->second;
  running.first_token = now;
  if (Replica* replica = replica_numbered(running.replica); replica != nullptr) {
    replica->on_first_token(now, running.prompt_work);
    if (running.conversation != 0) {
      affinity_.remember(running.conversation, replica->address());
    }
  }
  running.prompt_work = 0;
}

void Pool::more_tokens(Instant now, Ticket ticket, std::int64_t tokens) {
  const auto it = running_.find(ticket);
  if (it == running_.end()) {
    return;
  }
  Running& running = it->second;
  running.output_tokens += tokens;
  // A reply that is longer than expected still has something to come.
  const double done =
      std::min(static_cast<double>(tokens), std::max(running.output_work - 1.0, 0.0));
  running.output_work -= done;
  if (Replica* replica = replica_numbered(running.replica); replica != nullptr) {
    replica->on_tokens(now, tokens, done);
  }
}

void Pool::finished(Instant now, Ticket ticket, const Completion& completion) {
  const auto it = running_.find(ticket);
  if (it == running_.end()) {
    return;
  }
  Running running = std::move(it->second);
  running_.erase(it);
  if (Replica* replica = replica_numbered(running.replica); replica != nullptr) {
    if (completion.answered) {
      replica->health().on_outcome(now, {.probe = running.probe}, rng_);
    } else {
      replica->health().on_nothing(running.probe);
    }
  }
  settle(running);
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

bool Pool::on_page(Instant now, const std::string& replica, const EngineFacts& facts) {
  Replica* known = replica_named(replica);
  return known != nullptr && known->on_page(now, facts, config_.no_progress_timeout, rng_);
}

void Pool::on_page_failed(Instant now, const std::string& replica, const std::string& reason) {
  if (Replica* known = replica_named(replica); known != nullptr) {
    known->on_page_failed(now, reason, rng_);
  }
}

std::optional<std::int64_t> Pool::hard_budget(QosClass qos_class) const {
  const Rung* present = rung(static_cast<std::size_t>(ladder_.level()));
  if (present == nullptr) {
    return std::nullopt;
  }
  std::optional<std::int64_t> least;
  for (const ActionRule& rule : present->actions) {
    const auto* budget = std::get_if<BudgetRule>(&rule);
    if (budget != nullptr && budget->hard && budget->classes.test(index_of(qos_class))) {
      least = std::min(least.value_or(budget->max_tokens), budget->max_tokens);
    }
  }
  return least;
}

int Pool::hangs(const std::string& replica) const {
  const Replica* known = replica_named(replica);
  return known == nullptr ? 0 : known->health().hangs();
}

std::optional<double> Pool::work_per_second(Instant now) const {
  double sum = 0;
  int known = 0;
  int serving = 0;
  for (const Replica& replica : replicas_) {
    if (replica.health().down()) {
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
    if (replica.health().down()) {
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
                     [&](const Replica& r) { return !r.health().down() || r.admits(now); });
}

}  // namespace spillway
