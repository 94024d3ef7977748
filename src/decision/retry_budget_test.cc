#include "decision/retry_budget.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::seconds;

TEST(RetryBudget, GivesATenthOfTheSuccessesOfTheLastMinuteAndAFewBesides) {
  RetryBudget budget;
  const Instant now(seconds(1000));
  for (int i = 0; i < 200; ++i) {
    budget.on_success(now);
  }

  int taken = 0;
  while (budget.take(now)) {
    ++taken;
  }

  EXPECT_EQ(taken, RetryBudget::kAlways + 20);
  EXPECT_EQ(budget.left(now + seconds(59)), 0);
  EXPECT_EQ(budget.left(now + seconds(61)), RetryBudget::kAlways);  // both are forgotten
}

TEST(RetryBudget, NeverExceedsATenthHoweverLongTheFailureLasts) {
  RetryBudget budget;
  std::int64_t retries = 0;
  std::int64_t successes = 0;
  for (int s = 0; s < 600; ++s) {
    const Instant now(seconds(5000 + s));
    for (int i = 0; i < 10; ++i) {
      budget.on_success(now);
      ++successes;
    }
    for (int i = 0; i < 50; ++i) {
      retries += budget.take(now) ? 1 : 0;
    }
  }

  EXPECT_LE(retries, successes / 10 + RetryBudget::kAlways * 11);
  EXPECT_GE(retries, successes / 10 - 60);
}

}  // namespace
}  // namespace spillway
