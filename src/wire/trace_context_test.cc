#include "wire/trace_context.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

constexpr const char* kGood = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(Traceparent, IsReadAndWritten) {
  const auto context = parse_traceparent(kGood);

  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(context->span_id, "b7ad6b7169203331");
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(to_traceparent(*context), kGood);
  EXPECT_FALSE(
      parse_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")->sampled);
}

TEST(Traceparent, AcceptsLaterVersionsWithMoreFields) {
  EXPECT_TRUE(parse_traceparent("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"));
}

TEST(Traceparent, RefusesMalformedHeaders) {
  for (const char* header : {"", "00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
                             "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
                             "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                             "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                             "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                             "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
                             "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01"}) {
    SCOPED_TRACE(header);
    EXPECT_FALSE(parse_traceparent(header));
  }
}

}  // namespace
}  // namespace spillway
