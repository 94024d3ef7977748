#include "decision/capacity.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

EngineFacts page(double prompt, double generated, double waiting) {
  return {.waiting = waiting, .prompt_tokens_total = prompt, .generation_tokens_total = generated};
}

TEST(Capacity, IsUnknownUntilAQueueWasSeen) {
  Capacity capacity({});
  for (int s = 0; s < 60; ++s) {
    capacity.on_page(Instant(seconds(s)), page(100.0 * s, 50.0 * s, 0));
  }

  EXPECT_FALSE(capacity.work_per_second(Instant(seconds(60))));
}

TEST(Capacity, IsTheWorkDoneWhileRequestsWait) {
  Capacity capacity({.prompt_token_cost = 0.25});
  for (int s = 0; s < 60; ++s) {
    capacity.on_page(Instant(seconds(s)), page(100.0 * s, 50.0 * s, 3));
  }

  EXPECT_NEAR(*capacity.work_per_second(Instant(seconds(59))), 75, 0.1);
}

TEST(Capacity, IsNotLearnedFromTheFewThatWaitForTheNextStep) {
  Capacity capacity({});
  for (int s = 0; s < 60; ++s) {
    EngineFacts facts = page(100.0 * s, 50.0 * s, 3);
    facts.running = 40;
    capacity.on_page(Instant(seconds(s)), facts);
  }

  EXPECT_FALSE(capacity.work_per_second(Instant(seconds(60))));
}

TEST(Capacity, SurvivesARestartOfTheEngine) {
  Capacity capacity({.prompt_token_cost = 0});
  for (int s = 0; s < 10; ++s) {
    capacity.on_page(Instant(seconds(s)), page(0, 50.0 * s, 3));
  }
  for (int s = 0; s < 10; ++s) {
    capacity.on_page(Instant(seconds(10 + s)), page(0, 50.0 * s, 3));
  }

  EXPECT_NEAR(*capacity.work_per_second(Instant(seconds(20))), 50, 1);
}

TEST(Capacity, IsTrustedLessWithAge) {
  Capacity capacity({.prompt_token_cost = 0, .doubling = hours(1)});
  for (int s = 0; s < 10; ++s) {
    capacity.on_page(Instant(seconds(s)), page(0, 50.0 * s, 3));
  }

  EXPECT_NEAR(*capacity.work_per_second(Instant(seconds(9) + hours(1))), 100, 2);
}

TEST(Capacity, IsWhatTheOperatorSays) {
  const Capacity capacity({.fixed = 250});

  EXPECT_DOUBLE_EQ(*capacity.work_per_second(Instant()), 250);
}

TEST(Capacity, IgnoresPagesWithoutCounters) {
  Capacity capacity({});
  capacity.on_page(Instant(seconds(1)), {.waiting = 5});
  capacity.on_page(Instant(seconds(5)), {.waiting = 5});

  EXPECT_FALSE(capacity.work_per_second(Instant(seconds(5))));
}

}  // namespace
}  // namespace spillway
