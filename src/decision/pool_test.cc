#include "decision/pool.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::seconds;

std::shared_ptr<const Policy> shedding_policy() {
  Policy policy;
  policy.rungs = {{.name = "short",
                   .enter = 0.85,
                   .hysteresis = 0.15,
                   .actions = {BudgetRule{.max_tokens = 20, .classes = QosClassSet().set()}}},
                  {.name = "shed",
                   .enter = 0.85,
                   .hysteresis = 0.15,
                   .actions = {ShedRule{.classes = QosClassSet().set(index_of(QosClass::kNormal)),
                                        .retry_after = seconds(10)}}}};
  return std::make_shared<const Policy>(std::move(policy));
}

PoolConfig two_replicas() {
  PoolConfig config;
  config.name = "chat";
  config.models = {"m"};
  config.replicas = {{{"127.0.0.1", 1}}, {{"127.0.0.1", 2}}};
  config.capacity = 100;
  config.max_in_flight = 4;
  return config;
}

EngineFacts idle_page() {
  return {.kv_usage = 0.0,
          .kv_capacity_tokens = 10000,
          .running = 0,
          .waiting = 0,
          .prompt_tokens_total = 0,
          .generation_tokens_total = 0};
}

class PoolTest : public testing::Test {
 protected:
  PoolTest() : pool_(two_replicas(), shedding_policy(), 1) {
    pool_.on_page(Instant(), "127.0.0.1:1", idle_page());
    pool_.on_page(Instant(), "127.0.0.1:2", idle_page());
  }

  Verdict ask(std::int64_t prompt, QosClass c = QosClass::kNormal) {
    return pool_.admit(Instant(), {.qos_class = c, .prompt_tokens = prompt, .max_tokens = 50});
  }

  Pool pool_;
};

TEST_F(PoolTest, SendsEachRequestWhereTheLeastTokensAre) {
  EXPECT_EQ(std::get<Admitted>(ask(1000)).replica, "127.0.0.1:1");
  EXPECT_EQ(std::get<Admitted>(ask(10)).replica, "127.0.0.1:2");
  EXPECT_EQ(std::get<Admitted>(ask(10)).replica, "127.0.0.1:2");
}

TEST_F(PoolTest, RefusesBeyondItsBoundAndWhenNobodyIsThere) {
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(std::holds_alternative<Admitted>(ask(1)));
  }
  EXPECT_EQ(std::get<Refused>(ask(1)).cause, Refused::Cause::kFull);

  for (int i = 0; i < 3; ++i) {
    pool_.on_page_failed(Instant(), "127.0.0.1:1", "refused");
    pool_.on_page_failed(Instant(), "127.0.0.1:2", "refused");
  }
  EXPECT_EQ(std::get<Refused>(ask(1)).cause, Refused::Cause::kNobodyThere);
  EXPECT_FALSE(pool_.serving(Instant()));
}

TEST_F(PoolTest, GivesEveryTicketBackExactlyOnce) {
  const auto admitted = std::get<Admitted>(ask(100));
  pool_.first_token(Instant(), admitted.ticket);
  pool_.more_tokens(Instant(), admitted.ticket, 7);

  pool_.finished(Instant(seconds(1)), admitted.ticket, {.output_tokens = 7, .whole = true});
  pool_.finished(Instant(seconds(1)), admitted.ticket, {.output_tokens = 7, .whole = true});

  EXPECT_EQ(pool_.in_flight(), 0U);
  for (const Replica& replica : pool_.replicas()) {
    EXPECT_EQ(replica.in_flight(), 0);
    EXPECT_EQ(replica.tokens_in_flight(), 0);
  }
}

TEST_F(PoolTest, FailsOverOnceForEveryClassAndWithoutABudget) {
  const auto admitted = std::get<Admitted>(ask(100, QosClass::kCritical));
  RetryBudget empty;
  while (empty.take(Instant())) {
  }

  pool_.attempt_failed(Instant(), admitted.ticket, AttemptFault::kRefused);
  const auto again = pool_.try_again(Instant(), admitted.ticket, AttemptFault::kRefused, empty);

  ASSERT_TRUE(again);
  EXPECT_EQ(again->replica, "127.0.0.1:2");
  EXPECT_TRUE(again->failover);
  EXPECT_FALSE(pool_.try_again(Instant(), admitted.ticket, AttemptFault::kRefused, empty));
  pool_.finished(Instant(), admitted.ticket, {});
  EXPECT_EQ(pool_.replicas()[0].in_flight(), 0);
  EXPECT_EQ(pool_.replicas()[1].in_flight(), 0);
}

TEST_F(PoolTest, RetriesElsewhereWithinTheClassesCapAndTheBudget) {
  PoolConfig config = two_replicas();
  config.replicas.push_back({{"127.0.0.1", 3}});
  pool_.reconfigure(config, shedding_policy());
  RetryBudget budget;
  const auto with_retries = [&](int retries) {
    return std::get<Admitted>(pool_.admit(Instant(), {.prompt_tokens = 1, .retries = retries}));
  };
  const auto full = AttemptFault::kBackpressure;

  const auto none = with_retries(0);
  EXPECT_FALSE(pool_.try_again(Instant(), none.ticket, full, budget));
  const auto twice = with_retries(9);
  const auto first = pool_.try_again(Instant(), twice.ticket, full, budget);
  const auto second = pool_.try_again(Instant(), twice.ticket, full, budget);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->replica, twice.replica);
  EXPECT_NE(second->replica, first->replica);
  EXPECT_NE(second->replica, twice.replica);
  EXPECT_FALSE(pool_.try_again(Instant(), twice.ticket, full, budget));  // all have been tried
  while (budget.take(Instant())) {
  }
  const auto broke = with_retries(9);
  EXPECT_FALSE(pool_.try_again(Instant(), broke.ticket, full, budget));
}

TEST_F(PoolTest, WhenAllRestTheCallerIsToldTheFirstOnesTime) {
  const auto a = std::get<Admitted>(ask(1));
  const auto b = std::get<Admitted>(ask(1));
  pool_.attempt_failed(Instant(), a.ticket, AttemptFault::kBackpressure, seconds(37));
  pool_.attempt_failed(Instant(), b.ticket, AttemptFault::kBackpressure, seconds(52));

  const auto refused = std::get<Refused>(ask(1));

  EXPECT_EQ(refused.cause, Refused::Cause::kFull);
  EXPECT_EQ(refused.retry_after, Duration(seconds(37)));
}

TEST_F(PoolTest, SilenceOfAReplicaThatServesOthersIsLoadAndNotDeath) {
  for (int i = 0; i < 10; ++i) {
    const auto slow = std::get<Admitted>(ask(1));
    EngineFacts page = idle_page();
    page.running = 5;
    page.generation_tokens_total = 10.0 * (i + 1);
    pool_.on_page(Instant(seconds(i + 1)), slow.replica, page);
    pool_.attempt_failed(Instant(seconds(i + 1)), slow.ticket, AttemptFault::kTimeout);
    pool_.finished(Instant(seconds(i + 1)), slow.ticket, {});
    EXPECT_TRUE(pool_.serving(Instant(seconds(i + 1))));
  }
  for (const Replica& replica : pool_.replicas()) {
    EXPECT_FALSE(replica.health().down());
  }
}

TEST_F(PoolTest, FailuresNeverTakeTheLastReplicaAway) {
  for (int i = 0; i < 20; ++i) {
    const Verdict verdict = ask(1);
    ASSERT_TRUE(std::holds_alternative<Admitted>(verdict)) << i;
    const Ticket ticket = std::get<Admitted>(verdict).ticket;
    pool_.attempt_failed(Instant(), ticket, AttemptFault::kFailed);
    pool_.finished(Instant(), ticket, {});
  }
}

TEST_F(PoolTest, AConversationGoesWhereItsBeginningIsCachedWhileThatPays) {
  const auto talk = [&](std::int64_t prompt) {
    return std::get<Admitted>(
        pool_.admit(Instant(), {.prompt_tokens = prompt, .max_tokens = 50, .conversation = 99}));
  };
  const auto first = talk(400);
  pool_.first_token(Instant(), first.ticket);
  pool_.finished(Instant(), first.ticket, {.answered = true});
  std::get<Admitted>(ask(40));  // a little work there

  EXPECT_EQ(talk(400).replica, first.replica);
  EXPECT_EQ(talk(10'000).replica, first.replica);
  EXPECT_NE(talk(40).replica, first.replica);  // now it would wait longer than it saves
}

TEST_F(PoolTest, AReplicaThatWasRemovedAndNamedAgainStartsAtZero) {
  const auto admitted = std::get<Admitted>(ask(100));
  PoolConfig without = two_replicas();
  without.replicas.erase(without.replicas.begin());
  pool_.reconfigure(without, shedding_policy());
  pool_.reconfigure(two_replicas(), shedding_policy());

  pool_.finished(Instant(), admitted.ticket, {});

  for (const Replica& replica : pool_.replicas()) {
    EXPECT_EQ(replica.in_flight(), 0);
    EXPECT_EQ(replica.tokens_in_flight(), 0);
  }
}

TEST_F(PoolTest, TheBypassKnowsNoLadderAndNoBound) {
  pool_.pin_level(2);
  pool_.tick(Instant());
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(
        std::holds_alternative<Admitted>(pool_.admit_plainly(Instant(), {.prompt_tokens = 10})));
  }
}

TEST_F(PoolTest, JittersTheTimeToComeBack) {
  pool_.pin_level(2);
  pool_.tick(Instant());
  Duration low = std::chrono::hours(1);
  Duration high{};
  for (int i = 0; i < 200; ++i) {
    const auto refused = std::get<Refused>(ask(1));
    EXPECT_EQ(refused.cause, Refused::Cause::kShed);
    low = std::min(low, refused.retry_after);
    high = std::max(high, refused.retry_after);
  }

  EXPECT_GE(low, std::chrono::milliseconds(7500));
  EXPECT_LE(high, std::chrono::milliseconds(12500));
  EXPECT_GT(high - low, seconds(4));
}

TEST_F(PoolTest, HoldsItsLevelWhileItIsBlind) {
  const Instant later(seconds(60));  // the pages are a minute old
  for (int i = 0; i < 100; ++i) {
    pool_.admit(later, {.prompt_tokens = 10000, .max_tokens = 5000});
  }

  EXPECT_FALSE(pool_.tick(later));
  EXPECT_EQ(pool_.level(), 0);
}

TEST_F(PoolTest, KeepsFactsAndRunningRequestsWhenItIsReconfigured) {
  const auto admitted = std::get<Admitted>(ask(100));
  PoolConfig config = two_replicas();
  config.replicas = {{{"127.0.0.1", 3}}, {{"127.0.0.1", 1}}};

  pool_.reconfigure(config, shedding_policy());

  EXPECT_EQ(pool_.replicas()[1].in_flight(), 1);
  EXPECT_TRUE(pool_.replicas()[1].facts());
  pool_.finished(Instant(), admitted.ticket, {});
  EXPECT_EQ(pool_.replicas()[1].in_flight(), 0);
}

}  // namespace
}  // namespace spillway
