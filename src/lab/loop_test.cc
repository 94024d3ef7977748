// The whole loop in virtual time, without a socket: arrivals -> Pool -> SimulatedEngine -> pages ->
// Pool.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <queue>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "decision/pool.h"
#include "sim/simulated_engine.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t kPrompt = 200;
constexpr std::int64_t kOutput = 150;

std::shared_ptr<const Policy> chat_policy(std::size_t rungs) {
  const QosClassSet everyone = QosClassSet().set();
  QosClassSet lower = everyone;
  lower.reset(index_of(QosClass::kCritical));
  const QosClassSet normal = QosClassSet().set(index_of(QosClass::kNormal));
  const auto rung = [&](double enter, std::vector<ActionRule> actions) {
    return Rung{.name = "r", .enter = enter, .hysteresis = 0.2, .actions = std::move(actions)};
  };
  Policy policy;
  policy.rungs = {rung(0.85, {BudgetRule{.max_tokens = 60, .classes = lower}}),
                  rung(0.95, {BudgetRule{.max_tokens = 40, .classes = everyone}}),
                  rung(1.05, {BudgetRule{.max_tokens = 40, .classes = everyone},
                              ShedRule{.classes = normal, .retry_after = seconds(5)}})};
  policy.rungs.resize(rungs);
  return std::make_shared<const Policy>(std::move(policy));
}

struct Outcome {
  std::vector<double> ttft_seconds;  // of critical requests
  int refused = 0;
  int served = 0;
  int level_max = 0;
  std::optional<Instant> first_rise;
  std::optional<Instant> first_refusal;
  std::vector<LevelChange> changes;
};

class Loop {
 public:
  explicit Loop(std::size_t rungs, std::uint64_t seed = 1)
      : rng_(seed), engine_(profile()), pool_(config(), chat_policy(rungs), seed) {}

  // Requests a second that this engine serves undegraded, found by running it full.
  static double capacity() {
    SimulatedEngine engine(profile());
    for (SimId id = 0; id < 2000; ++id) {
      engine.submit(Instant(), {.id = id, .prompt_tokens = kPrompt, .output_tokens = kOutput});
    }
    std::vector<SimToken> tokens;
    engine.advance(Instant(seconds(60)), tokens);
    return static_cast<double>(std::ranges::count_if(tokens, &SimToken::last)) / 60;
  }

  // Poisson arrivals at `rate` for `span`; classes 20/30/50.
  void offer(double rate, Duration span) {
    const Instant end = now_ + span;
    Instant arrival = now_ + gap(rate);
    while (now_ < end) {
      const Instant page = std::max(next_page_, now_);
      Instant next = std::min({end, arrival, page});
      if (const auto step = engine_.next_event()) {
        next = std::min(next, *step);
      }
      now_ = next;
      take_tokens();
      if (now_ >= page) {
        scrape();
      }
      if (now_ >= arrival) {
        arrive();
        arrival = now_ + gap(rate);
      }
    }
  }

  const Outcome& outcome() const { return outcome_; }
  int level() const { return pool_.level(); }
  Instant now() const { return now_; }
  SimStats engine() const { return engine_.stats(); }

 private:
  struct Live {
    Ticket ticket;
    Instant arrived;
    QosClass qos_class;
    std::int64_t output = 0;
    bool cut;
  };

  static SimProfile profile() { return {.priority_scheduling = true}; }
  static PoolConfig config() {
    PoolConfig config;
    config.name = "chat";
    config.replicas = {{{"sim", 1}}};
    config.max_in_flight = 100000;
    return config;
  }

  Duration gap(double rate) { return from_seconds(-std::log(1 - rng_.uniform()) / rate); }

  void arrive() {
    const double draw = rng_.uniform();
    const QosClass c = draw < 0.2   ? QosClass::kCritical
                       : draw < 0.5 ? QosClass::kHigh
                                    : QosClass::kNormal;
    const Verdict verdict =
        pool_.admit(now_, {.qos_class = c, .prompt_tokens = kPrompt, .max_tokens = kOutput});
    if (std::holds_alternative<Refused>(verdict)) {
      ++outcome_.refused;
      outcome_.first_refusal = outcome_.first_refusal.value_or(now_);
      return;
    }
    const auto& admitted = std::get<Admitted>(verdict);
    const std::int64_t output = std::min(kOutput, admitted.plan.max_tokens.value_or(kOutput));
    live_[next_id_] = {admitted.ticket, now_, c, output, output < kOutput};
    engine_.submit(now_, {.id = next_id_++,
                          .prompt_tokens = kPrompt,
                          .output_tokens = output,
                          .priority = static_cast<int>(index_of(c))});
  }

  void take_tokens() {
    tokens_.clear();
    engine_.advance(now_, tokens_);
    for (const SimToken& token : tokens_) {
      const Live& live = live_.at(token.id);
      if (token.index == 0) {
        pool_.first_token(token.at, live.ticket);
        if (live.qos_class == QosClass::kCritical) {
          outcome_.ttft_seconds.push_back(to_seconds(token.at - live.arrived));
        }
      }
      pool_.more_tokens(now_, live.ticket, 1);
      if (token.last) {
        pool_.finished(token.at, live.ticket,
                       {.prompt_tokens = kPrompt,
                        .output_tokens = live.output,
                        .cut_by_length = true,
                        .whole = true});
        live_.erase(token.id);
        ++outcome_.served;
      }
    }
  }

  void scrape() {
    const SimStats stats = engine_.stats();
    pool_.on_page(
        now_, "sim:1",
        {.kv_usage = stats.kv_usage,
         .kv_capacity_tokens = engine_.profile().kv_blocks * engine_.profile().block_tokens,
         .running = stats.running,
         .waiting = stats.waiting,
         .prompt_tokens_total = static_cast<double>(stats.prompt_tokens),
         .generation_tokens_total = static_cast<double>(stats.generation_tokens)});
    if (const auto change = pool_.tick(now_)) {
      outcome_.changes.push_back(*change);
      outcome_.first_rise = outcome_.first_rise.value_or(now_);
      outcome_.level_max = std::max(outcome_.level_max, change->to);
    }
    next_page_ = now_ + seconds(1);
  }

  Rng rng_;
  SimulatedEngine engine_;
  Pool pool_;
  Instant now_;
  Instant next_page_;
  std::map<SimId, Live> live_;
  SimId next_id_ = 1;
  std::vector<SimToken> tokens_;
  Outcome outcome_;
};

double percentile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

TEST(Loop, RunsAwayAtThreeTimesTheCapacityWithoutALadder) {
  Loop loop(0);

  loop.offer(3 * Loop::capacity(), seconds(60));

  EXPECT_GT(loop.engine().waiting, 500);
  EXPECT_EQ(loop.outcome().refused, 0);
}

TEST(Loop, HoldsAtThreeTimesTheCapacityAndClimbsBack) {
  Loop loop(3);
  loop.offer(0.5 * Loop::capacity(), seconds(60));
  EXPECT_EQ(loop.level(), 0);

  loop.offer(3 * Loop::capacity(), seconds(120));
  const Outcome overload = loop.outcome();
  EXPECT_EQ(overload.level_max, 3);
  ASSERT_TRUE(overload.first_rise && overload.first_refusal);
  EXPECT_LT(*overload.first_rise, *overload.first_refusal);
  EXPECT_LT(percentile(overload.ttft_seconds, 0.95), 1.0);
  EXPECT_LT(loop.engine().waiting, 50);

  loop.offer(0.3 * Loop::capacity(), seconds(240));
  EXPECT_EQ(loop.level(), 0);
  for (std::size_t i = 0; i < loop.outcome().changes.size(); ++i) {
    const LevelChange& change = loop.outcome().changes[i];
    EXPECT_EQ(std::abs(change.to - change.from), 1);
  }
  EXPECT_EQ(loop.outcome().changes.size(), 6U);  // up three rungs, down three
}

TEST(Loop, ChangesItsLevelAtMostOnceInTenMinutesOfConstantOverload) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Loop loop(3, seed);

    loop.offer(1.3 * Loop::capacity(), seconds(600));

    EXPECT_LE(loop.outcome().changes.size(), 1U);
    EXPECT_EQ(loop.level(), 1);
    EXPECT_EQ(loop.outcome().refused, 0);
    EXPECT_LT(percentile(loop.outcome().ttft_seconds, 0.95), 1.0);
  }
}

TEST(Loop, IsTheSameForTheSameSeed) {
  Loop a(3, 7);
  Loop b(3, 7);

  a.offer(100, seconds(30));
  b.offer(100, seconds(30));

  EXPECT_EQ(a.outcome().ttft_seconds, b.outcome().ttft_seconds);
  EXPECT_EQ(a.outcome().refused, b.outcome().refused);
}

}  // namespace
}  // namespace spillway
