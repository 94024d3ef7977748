#include "wire/retry_after.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::optional<Duration> read(std::string_view value, std::string_view name = "Retry-After") {
  const WallTime now(std::chrono::sys_days(std::chrono::year(2026) / 12 / 1));
  return retry_after_of({{name, value}}, now);
}

TEST(RetryAfter, ReadsSecondsDatesAndMilliseconds) {
  EXPECT_EQ(read("37"), Duration(seconds(37)));
  EXPECT_EQ(read("1.5"), Duration(milliseconds(1500)));
  EXPECT_EQ(read("0"), Duration{});
  EXPECT_EQ(read("86400"), Duration(hours(24)));
  EXPECT_EQ(read("Tue, 01 Dec 2026 00:02:00 GMT"), Duration(seconds(120)));
  EXPECT_EQ(read("Wed, 21 Oct 2015 07:28:00 GMT"), Duration{});
  EXPECT_EQ(read("250", "retry-after-ms"), Duration(milliseconds(250)));
}

TEST(RetryAfter, IgnoresWhatItCannotReadAndNeverOverflows) {
  for (const char* garbage : {"", "abc", "-5", "1e3", "5s", "nan", "inf", "Wed, 21 Oct",
                              "Wed, 41 Oct 2037 07:28:00 GMT", "Wed, 21 Oct 9999 07:28:00 GMT"}) {
    EXPECT_FALSE(read(garbage)) << garbage;
  }
  EXPECT_GE(read("99999999999999999999"), Duration(hours(24 * 365)));
  EXPECT_GE(read(std::string(400, '9')), Duration(hours(24 * 365)));
  EXPECT_GE(read("Wed, 21 Oct 2037 07:28:00 GMT"), Duration(hours(24 * 365)));
  EXPECT_FALSE(retry_after_of({}, WallTime()));
}

}  // namespace
}  // namespace spillway
