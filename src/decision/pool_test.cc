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
  pool_.more_tokens(admitted.ticket, 7);

  pool_.finished(Instant(seconds(1)), admitted.ticket, {.output_tokens = 7, .whole = true});
  pool_.finished(Instant(seconds(1)), admitted.ticket, {.output_tokens = 7, .whole = true});

  EXPECT_EQ(pool_.in_flight(), 0U);
  for (const Replica& replica : pool_.replicas()) {
    EXPECT_EQ(replica.in_flight(), 0);
    EXPECT_EQ(replica.tokens_in_flight(), 0);
  }
}

TEST_F(PoolTest, FailsOverOnceToAnotherReplica) {
  const auto admitted = std::get<Admitted>(ask(100));

  EXPECT_EQ(pool_.fail_over(Instant(), admitted.ticket), "127.0.0.1:2");
  EXPECT_FALSE(pool_.fail_over(Instant(), admitted.ticket));

  pool_.finished(Instant(), admitted.ticket, {});
  EXPECT_EQ(pool_.replicas()[0].in_flight(), 0);
  EXPECT_EQ(pool_.replicas()[1].in_flight(), 0);
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
