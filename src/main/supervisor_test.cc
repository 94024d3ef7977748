#include "main/supervisor.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RestartBackoff, GrowsWhileItKeepsEndingAndForgivesALongRun) {
  RestartBackoff backoff;
  EXPECT_EQ(backoff.after_run_of(milliseconds(5)), Duration(milliseconds(100)));
  EXPECT_EQ(backoff.after_run_of(milliseconds(5)), Duration(milliseconds(200)));
  for (int i = 0; i < 20; ++i) {
    backoff.after_run_of(seconds(1));
  }
  EXPECT_EQ(backoff.after_run_of(seconds(1)), RestartBackoff::kMost);

  EXPECT_EQ(backoff.after_run_of(seconds(61)), RestartBackoff::kFirst);
}

}  // namespace
}  // namespace spillway
