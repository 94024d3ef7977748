#include "decision/demand.h"

#include <array>

#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Demand, SettlesAtTheOfferedRate) {
  Demand demand(seconds(10));
  const std::array<Price, 2> prices = {Price{.work = 10, .kv_token_seconds = 5}, Price{.work = 4}};

  Instant now;
  for (int i = 0; i < 2000; ++i) {
    now += milliseconds(100);
    demand.on_arrival(now, prices);
  }

  EXPECT_NEAR(demand.rate(now, 0).work, 100, 2);
  EXPECT_NEAR(demand.rate(now, 0).kv_token_seconds, 50, 1);
  EXPECT_NEAR(demand.rate(now, 1).work, 40, 1);
  EXPECT_EQ(demand.rate(now, 2).work, 0);
}

TEST(Demand, FadesWhenNobodyComes) {
  Demand demand(seconds(10));
  const std::array<Price, 1> prices = {Price{.work = 100}};
  demand.on_arrival(Instant(), prices);

  EXPECT_NEAR(demand.rate(Instant(), 0).work, 10, 1e-9);
  EXPECT_NEAR(demand.rate(Instant(seconds(10)), 0).work, 10 / 2.718281828, 1e-6);
  EXPECT_LT(demand.rate(Instant(seconds(200)), 0).work, 1e-6);
}

}  // namespace
}  // namespace spillway
