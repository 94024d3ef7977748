#include "decision/request_plan.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace spillway {
namespace {

QosClassSet all() {
  return QosClassSet().set();
}

RequestFacts chat(std::optional<std::int64_t> max_tokens) {
  return {.qos_class = QosClass::kNormal, .prompt_tokens = 30, .max_tokens = max_tokens};
}

Rung budget(std::int64_t tokens, QosClassSet classes) {
  return {.actions = {BudgetRule{.max_tokens = tokens, .classes = classes}}};
}

TEST(PlanRequest, DoesNothingAtLevelZero) {
  const RequestPlan plan = plan_request(chat(500), nullptr);

  EXPECT_FALSE(plan.max_tokens);
  EXPECT_TRUE(plan.actions.empty());
  EXPECT_FALSE(plan.shed);
}

TEST(PlanRequest, LowersABudgetAndNeverRaisesOne) {
  const Rung rung = budget(64, all());

  EXPECT_EQ(plan_request(chat(500), &rung).max_tokens, 64);
  EXPECT_EQ(plan_request(chat(std::nullopt), &rung).max_tokens, 64);
  EXPECT_FALSE(plan_request(chat(64), &rung).max_tokens);
  EXPECT_FALSE(plan_request(chat(10), &rung).max_tokens);
  EXPECT_EQ(plan_request(chat(500), &rung).actions, "budget=64");
}

TEST(PlanRequest, ConcernsOnlyTheClassesNamed) {
  const Rung rung = budget(64, QosClassSet().set(index_of(QosClass::kHigh)));

  EXPECT_FALSE(plan_request(chat(500), &rung).max_tokens);
}

TEST(PlanRequest, ShortensTheContextAndSaysSo) {
  RequestFacts facts{.prompt_tokens = 400};
  for (const char* role : {"user", "assistant", "user", "assistant", "user"}) {
    facts.messages.push_back({role, 80});
  }
  const Rung rung{.actions = {TruncateRule{.prompt_tokens = 250, .classes = all()}}};

  const RequestPlan plan = plan_request(facts, &rung);

  EXPECT_EQ(plan.dropped_messages, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(plan.prompt_tokens, 240);
  EXPECT_EQ(plan.actions, "truncate=400>240");
}

TEST(PlanRequest, LeavesAContextAloneThatHasNothingToDrop) {
  const RequestFacts facts{.prompt_tokens = 900, .messages = {{"user", 900}}};
  const Rung rung{.actions = {TruncateRule{.prompt_tokens = 250, .classes = all()}}};

  EXPECT_TRUE(plan_request(facts, &rung).actions.empty());
}

TEST(PlanRequest, ShedsWithATimeToComeBack) {
  const Rung rung{.actions = {ShedRule{.classes = all(), .retry_after = std::chrono::seconds(7)}}};

  const RequestPlan plan = plan_request(chat(5), &rung);

  EXPECT_TRUE(plan.shed);
  EXPECT_EQ(plan.retry_after, std::chrono::seconds(7));
}

TEST(PlanRequest, NeverGivesMoreThanWasAskedWhateverTheRules) {
  Rng rng(9);
  for (int round = 0; round < 3000; ++round) {
    Rung rung;
    for (std::uint64_t n = rng.below(4); n > 0; --n) {
      if (rng.below(2) == 0) {
        rung.actions.emplace_back(
            BudgetRule{.max_tokens = 1 + static_cast<std::int64_t>(rng.below(300)),
                       .classes = QosClassSet(rng.below(8))});
      } else {
        rung.actions.emplace_back(
            TruncateRule{.prompt_tokens = 1 + static_cast<std::int64_t>(rng.below(300)),
                         .classes = QosClassSet(rng.below(8))});
      }
    }
    RequestFacts facts{.qos_class = kQosClasses[rng.below(3)]};
    for (std::uint64_t n = rng.below(8); n > 0; --n) {
      facts.messages.push_back(
          {rng.below(2) == 0 ? "user" : "assistant", static_cast<std::int64_t>(rng.below(99))});
      facts.prompt_tokens += facts.messages.back().tokens;
    }
    if (rng.below(2) == 0) {
      facts.max_tokens = static_cast<std::int64_t>(rng.below(300));
    }

    const RequestPlan plan = plan_request(facts, &rung);

    if (plan.max_tokens && facts.max_tokens) {
      ASSERT_LT(*plan.max_tokens, *facts.max_tokens);
    }
    ASSERT_LE(plan.prompt_tokens, facts.prompt_tokens);
    ASSERT_GE(plan.prompt_tokens, 0);
  }
}

}  // namespace
}  // namespace spillway
