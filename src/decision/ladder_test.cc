#include "decision/ladder.h"

#include <vector>

#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::seconds;

Policy three_rungs() {
  Policy policy;
  policy.dwell_up = seconds(2);
  policy.dwell_down = seconds(10);
  policy.rungs = {{.name = "one", .enter = 0.85, .hysteresis = 0.15},
                  {.name = "two", .enter = 0.85, .hysteresis = 0.15},
                  {.name = "three", .enter = 0.85, .hysteresis = 0.15}};
  return policy;
}

// Feeds one pressure vector each second; gives the levels seen.
std::vector<int> feed(Ladder& ladder, int from, int to, std::vector<double> pressure) {
  std::vector<int> levels;
  for (int s = from; s < to; ++s) {
    ladder.update(Instant(seconds(s)), three_rungs(), pressure);
    levels.push_back(ladder.level());
  }
  return levels;
}

TEST(Ladder, StaysAtNormalServiceBelowTheThreshold) {
  Ladder ladder;

  EXPECT_EQ(feed(ladder, 0, 3, {0.84, 0.5, 0.3, 0.2}), (std::vector<int>{0, 0, 0}));
}

TEST(Ladder, ClimbsAtOnceAndThenRungByRungWithADwell) {
  Ladder ladder;

  EXPECT_EQ(feed(ladder, 0, 6, {0.9, 0.9, 0.9, 0.7}), (std::vector<int>{1, 1, 2, 2, 3, 3}));
}

TEST(Ladder, ClimbsFasterTheFurtherTheDemandIsBeyond) {
  Ladder ladder;

  EXPECT_EQ(feed(ladder, 0, 4, {3, 2, 1.5, 0.7}), (std::vector<int>{1, 2, 3, 3}));
}

TEST(Ladder, StopsAtTheFirstRungThatIsEnough) {
  Ladder ladder;

  feed(ladder, 0, 600, {1.3, 0.7, 0.5, 0.3});

  EXPECT_EQ(ladder.level(), 1);
}

TEST(Ladder, IsNotLeftWhileTheLoadThatRaisedItIsThere) {
  Ladder ladder;
  feed(ladder, 0, 10, {1.3, 0.7, 0.5, 0.3});

  feed(ladder, 10, 1000, {0.71, 0.4, 0.3, 0.2});  // between the threshold and the way down

  EXPECT_EQ(ladder.level(), 1);
}

TEST(Ladder, DescendsOneRungAtATimeWhenTheWayStaysOpen) {
  Ladder ladder;
  feed(ladder, 0, 10, {3, 2, 1.5, 0.7});

  const std::vector<int> levels = feed(ladder, 10, 45, {0.2, 0.1, 0.1, 0.1});

  EXPECT_EQ(levels[9], 3);
  EXPECT_EQ(levels[10], 2);
  EXPECT_EQ(levels[21], 1);
  EXPECT_EQ(levels[32], 0);
}

TEST(Ladder, OneBurstOnTheWayDownBeginsTheDwellAgain) {
  Ladder ladder;
  feed(ladder, 0, 2, {1.3, 0.7, 0.5, 0.3});

  feed(ladder, 2, 10, {0.2, 0.1, 0.1, 0.1});
  feed(ladder, 10, 11, {0.8, 0.4, 0.3, 0.2});
  feed(ladder, 11, 20, {0.2, 0.1, 0.1, 0.1});

  EXPECT_EQ(ladder.level(), 1);
}

TEST(Ladder, SaysWhyItMoved) {
  Ladder ladder;
  const std::vector<double> pressure = {1.3, 0.7, 0.5, 0.3};

  const auto change = ladder.update(Instant(), three_rungs(), pressure);

  ASSERT_TRUE(change);
  EXPECT_EQ(change->reason, "demand at level 0 is 1.30 of capacity, at or above 0.85");
}

TEST(Ladder, HoldsAPinnedLevel) {
  Ladder ladder;
  ladder.pin(2);
  feed(ladder, 0, 10, {0, 0, 0, 0});
  EXPECT_EQ(ladder.level(), 2);

  ladder.pin(0);
  feed(ladder, 10, 20, {9, 9, 9, 9});
  EXPECT_EQ(ladder.level(), 0);
}

TEST(Ladder, FollowsAPolicyThatHasFewerRungs) {
  Ladder ladder;
  feed(ladder, 0, 10, {3, 2, 1.5, 0.7});
  Policy short_policy = three_rungs();
  short_policy.rungs.resize(1);
  const std::vector<double> pressure = {3, 2};

  ladder.update(Instant(seconds(10)), short_policy, pressure);

  EXPECT_EQ(ladder.level(), 1);
}

}  // namespace
}  // namespace spillway
