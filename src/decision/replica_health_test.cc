#include "decision/replica_health.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kPatience = seconds(10);

class ReplicaHealthTest : public testing::Test {
 protected:
  bool page(double tokens, double running) {
    return health_.on_page(now_, {.running = running, .generation_tokens_total = tokens}, kPatience,
                           rng_);
  }
  void fail(bool probe = false) {
    health_.on_outcome(now_, {.outcome = AttemptOutcome::kFailure, .probe = probe}, rng_);
  }
  void succeed(bool probe = false) { health_.on_outcome(now_, {.probe = probe}, rng_); }
  void push_back(std::optional<Duration> retry_after = std::nullopt) {
    health_.on_outcome(now_, {.outcome = AttemptOutcome::kBackpressure, .retry_after = retry_after},
                       rng_);
  }
  // Lets time pass until it may be tried, and sends one request.
  bool probe() {
    while (!health_.admits(now_, 0)) {
      now_ += milliseconds(50);
    }
    return health_.on_admitted();
  }

  Instant now_{seconds(1000)};
  Rng rng_{1};
  ReplicaHealth health_;
};

TEST_F(ReplicaHealthTest, AHungEngineThatAnswersItsPageIsFound) {
  page(100, 2);
  for (int s = 0; s < 9; ++s) {
    now_ += seconds(1);
    page(100, 2);
    EXPECT_TRUE(health_.admits(now_, 2)) << s;
  }
  now_ += seconds(3);
  page(100, 2);

  EXPECT_FALSE(health_.admits(now_, 2));
  EXPECT_TRUE(health_.hung());
  EXPECT_NE(health_.reason(now_).find("no token came"), std::string::npos);
}

TEST_F(ReplicaHealthTest, ASlowEngineIsLeftAlone) {
  for (int s = 0; s < 300; ++s) {
    now_ += seconds(1);
    page(100 + s / 9, 4);  // a token every nine seconds
    EXPECT_TRUE(health_.admits(now_, 4));
  }
}

TEST_F(ReplicaHealthTest, TokensThatWeSeeCountWhenThePageIsFrozen) {
  for (int s = 0; s < 100; ++s) {
    now_ += seconds(1);
    page(100, 2);
    health_.on_token(now_);
  }
  EXPECT_TRUE(health_.admits(now_, 2));
}

TEST_F(ReplicaHealthTest, AnIdleEngineIsNotHung) {
  page(100, 0);
  now_ += seconds(1000);
  page(100, 0);
  now_ += seconds(1000);
  page(100, 1);  // the first request after a long rest

  EXPECT_TRUE(health_.admits(now_, 1));
}

TEST_F(ReplicaHealthTest, OneProbeAtATimeAndOnlyAProbeBringsItBack) {
  for (int i = 0; i < ReplicaHealth::kFailuresMax; ++i) {
    fail();
  }
  ASSERT_FALSE(health_.admits(now_, 0));
  succeed();  // an answer from before
  EXPECT_TRUE(health_.down());

  EXPECT_TRUE(probe());
  EXPECT_FALSE(health_.admits(now_, 0));  // one is on its way
  health_.on_nothing(true);               // its caller went away
  EXPECT_TRUE(health_.admits(now_, 0));
  EXPECT_TRUE(probe());
  succeed(true);

  EXPECT_FALSE(health_.down());
}

TEST_F(ReplicaHealthTest, ComesBackGently) {
  health_.on_refused(now_, rng_);
  probe();
  succeed(true);

  int limit = 2;
  while (limit <= 64) {
    EXPECT_TRUE(health_.admits(now_, limit - 1));
    EXPECT_FALSE(health_.admits(now_, limit));
    succeed();
    limit *= 2;
  }
  EXPECT_TRUE(health_.admits(now_, 10'000));
}

TEST_F(ReplicaHealthTest, ProbesFurtherAndFurtherApart) {
  health_.on_refused(now_, rng_);
  Duration last{};
  for (int i = 0; i < 8; ++i) {
    const Instant before = now_;
    probe();
    last = now_ - before;
    health_.on_refused(now_, rng_);
  }
  EXPECT_GE(last, seconds(20));
  EXPECT_LE(last, seconds(38));
}

TEST_F(ReplicaHealthTest, BackpressureRestsItAndNeverOpensAnything) {
  for (int i = 0; i < 100; ++i) {
    push_back(milliseconds(10));
  }
  EXPECT_FALSE(health_.down());
  EXPECT_FALSE(health_.admits(now_, 0));
  EXPECT_TRUE(health_.admits(now_ + seconds(1), 0));
}

TEST_F(ReplicaHealthTest, RestsAsLongAsItIsAskedButNeverLongerThanAMinute) {
  push_back(std::chrono::hours(24));

  EXPECT_EQ(health_.back_at(now_), now_ + ReplicaHealth::kRestMax);
  EXPECT_TRUE(health_.admits(now_ + ReplicaHealth::kRestMax, 0));
}

TEST_F(ReplicaHealthTest, ARestartIsSeenOnThePage) {
  EXPECT_TRUE(page(500, 3));
  now_ += seconds(1);
  EXPECT_FALSE(page(3, 0));
  EXPECT_TRUE(health_.admits(now_, 1));
  EXPECT_FALSE(health_.admits(now_, 2));  // its caches are cold
}

TEST_F(ReplicaHealthTest, APageAfterSilenceMakesItWorthATryAtOnce) {
  for (int i = 0; i < ReplicaHealth::kFailedPagesMax; ++i) {
    health_.on_page_failed(now_, "refused", rng_);
  }
  for (int i = 0; i < 6; ++i) {
    probe();
    health_.on_refused(now_, rng_);
  }
  ASSERT_FALSE(health_.admits(now_, 0));

  page(0, 0);

  EXPECT_TRUE(health_.admits(now_, 0));
}

TEST_F(ReplicaHealthTest, FuzzedEventsLeaveItInOneOfItsStates) {
  for (int i = 0; i < 200'000; ++i) {
    now_ += milliseconds(static_cast<int>(rng_.uniform() * 500));
    const bool probe = rng_.uniform() < 0.5;
    switch (static_cast<int>(rng_.uniform() * 8)) {
      case 0:
        page(rng_.uniform() * 100, rng_.uniform() * 3 - 1);
        break;
      case 1:
        health_.on_page_failed(now_, "x", rng_);
        break;
      case 2:
        health_.on_refused(now_, rng_);
        break;
      case 3:
        fail(probe);
        break;
      case 4:
        succeed(probe);
        break;
      case 5:
        push_back(from_seconds(rng_.uniform() * 100 - 10));
        break;
      case 6:
        health_.on_admitted();
        break;
      default:
        health_.on_nothing(probe);
    }
    // It is never shut for longer than its longest rest or back-off.
    health_.on_nothing(true);
    const auto back = health_.back_at(now_);
    ASSERT_TRUE(!back || *back - now_ <= ReplicaHealth::kRestMax);
    ASSERT_EQ(health_.reason(now_).empty(), health_.admits(now_, 1'000'000) && !health_.down());
  }
}

}  // namespace
}  // namespace spillway
