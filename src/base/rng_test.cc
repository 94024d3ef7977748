#include "base/rng.h"

#include <array>

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(Rng, GivesTheSameNumbersForTheSameSeedOnEveryMachine) {
  Rng rng(1);

  EXPECT_EQ(rng.next(), 12966619160104079557U);
  EXPECT_EQ(rng.next(), 9600361134598540522U);
}

TEST(Rng, DiffersBetweenSeeds) {
  EXPECT_NE(Rng(1).next(), Rng(2).next());
}

TEST(Rng, FillsTheUnitIntervalEvenly) {
  Rng rng(42);
  std::array<int, 10> tenths{};

  for (int i = 0; i < 100000; ++i) {
    const double x = rng.uniform();
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    ++tenths[static_cast<std::size_t>(x * 10)];
  }

  for (const int count : tenths) {
    EXPECT_NEAR(count, 10000, 500);
  }
}

TEST(Rng, BelowNeverReachesItsBound) {
  Rng rng(7);
  for (int i = 0; i < 10000; ++i) {
    EXPECT_LT(rng.below(3), 3U);
  }
}

}  // namespace
}  // namespace spillway
