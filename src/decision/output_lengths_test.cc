#include "decision/output_lengths.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace spillway {
namespace {

TEST(OutputLengths, StartsFromThePrior) {
  const OutputLengths lengths({.prior_mean = 200});

  EXPECT_NEAR(lengths.expected(100000), 200, 20);
}

TEST(OutputLengths, NeverExceedsTheLimit) {
  OutputLengths lengths;
  for (int i = 0; i < 100; ++i) {
    lengths.observe(5000, false);
  }

  for (const std::int64_t limit : {0, 1, 7, 64, 1000, 200000}) {
    EXPECT_LE(lengths.expected(limit), static_cast<double>(limit));
  }
  EXPECT_EQ(lengths.expected(-5), 0);
}

TEST(OutputLengths, LearnsTheMeanOfRepliesThatEndByThemselves) {
  OutputLengths lengths;
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    lengths.observe(40 + static_cast<std::int64_t>(rng.below(41)), false);
  }

  EXPECT_NEAR(lengths.expected(4096), 60, 8);
}

TEST(OutputLengths, StillKnowsTheUncutLengthWhileMostRepliesAreCut) {
  OutputLengths lengths({.prior_mean = 200, .memory = 1000});
  Rng rng(1);
  for (int i = 0; i < 1000; ++i) {
    lengths.observe(300, false);
  }
  for (int i = 0; i < 400; ++i) {
    lengths.observe(64, true);
  }

  // A naive mean of the last replies would be far below.
  EXPECT_GT(lengths.expected(4096), 230);
  EXPECT_NEAR(lengths.expected(64), 64, 3);
}

TEST(OutputLengths, GrowsWithTheLimit) {
  OutputLengths lengths;
  lengths.observe(10, false);
  lengths.observe(1000, false);

  double before = 0;
  for (std::int64_t limit = 1; limit < 5000; limit += 13) {
    const double now = lengths.expected(limit);
    EXPECT_GE(now, before);
    before = now;
  }
}

}  // namespace
}  // namespace spillway
