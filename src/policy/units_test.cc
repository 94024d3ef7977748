#include "policy/units.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(Units, ReadDurations) {
  EXPECT_EQ(parse_duration("30s"), seconds(30));
  EXPECT_EQ(parse_duration("200ms"), milliseconds(200));
  EXPECT_EQ(parse_duration("2m"), minutes(2));
  EXPECT_EQ(parse_duration("1.5 s"), milliseconds(1500));
}

TEST(Units, ReadQuantities) {
  EXPECT_DOUBLE_EQ(*parse_share("85%"), 0.85);
  EXPECT_EQ(parse_tokens("512 tokens"), 512);
  EXPECT_EQ(parse_bytes("8 MiB"), 8 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(*parse_token_rate("250 tokens/s"), 250);
  EXPECT_EQ(parse_count("256"), 256);
}

TEST(Units, RefuseANumberWithoutItsUnitAndAUnitOfAnotherKind) {
  for (const char* text : {"30", "", "s", "-5s", "30 tokens", "1e3s", "30s ", "0x10s", "010s",
                           ".5s", "1.2.3s", "30  s", "99999999999999s"}) {
    SCOPED_TRACE(text);
    EXPECT_FALSE(parse_duration(text));
  }
  EXPECT_FALSE(parse_share("0.85"));
  EXPECT_FALSE(parse_tokens("512"));
  EXPECT_FALSE(parse_tokens("1.5 tokens"));
  EXPECT_FALSE(parse_bytes("8 MB"));
  EXPECT_FALSE(parse_count("1.0"));
  EXPECT_FALSE(parse_count("010"));
}

}  // namespace
}  // namespace spillway
