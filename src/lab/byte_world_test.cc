// Hours of traffic with failing engines, every byte of it, in virtual time. tools/long/virtual_day
// runs a day from a hundred seeds.
#include "lab/byte_world.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

ByteWorld::Report live(std::uint64_t seed) {
  return ByteWorld({.seed = seed,
                    .requests_per_second = 1,
                    .span = std::chrono::minutes(30),
                    .between_faults = std::chrono::minutes(1)})
      .run();
}

TEST(ByteWorld, EveryRequestIsAnsweredOnceWhateverTheEnginesDo) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    const ByteWorld::Report report = live(seed);

    for (const std::string& violation : report.violations) {
      ADD_FAILURE() << violation;
    }
    EXPECT_GT(report.requests, 1000U);
    EXPECT_GT(report.faults, 10U);
    EXPECT_GT(report.outcomes.at("ok"), report.requests / 2);
    EXPECT_GT(report.retries, 0U);
    EXPECT_GT(report.failovers, 0U);
    EXPECT_GT(report.outcomes.at("caller_gone"), 0U);
  }
}

TEST(ByteWorld, TheSameSeedGivesTheSameWorld) {
  EXPECT_EQ(live(7).digest, live(7).digest);
  EXPECT_NE(live(7).digest, live(8).digest);
}

}  // namespace
}  // namespace spillway
