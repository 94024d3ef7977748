#include "wire/otlp.h"

#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace spillway {
namespace {

TEST(Otlp, WritesSpansInTheJsonMapping) {
  const std::vector<OtlpSpan> spans = {{.trace_id = "0af7651916cd43dd8448eb211c80319c",
                                        .span_id = "b7ad6b7169203331",
                                        .parent_span_id = "1111111111111111",
                                        .name = "POST /v1/chat/completions",
                                        .start = WallTime(Duration(1'700'000'000'000'000'001)),
                                        .end = WallTime(Duration(1'700'000'000'500'000'000)),
                                        .texts = {{"http.route", "/v1/chat/completions"}},
                                        .numbers = {{"spillway.level", 2}},
                                        .failed = true,
                                        .error = "cut"}};

  const auto body = nlohmann::json::parse(otlp_body("gate", spans));

  const auto& resource = body["resourceSpans"][0];
  EXPECT_EQ(resource["resource"]["attributes"][0]["value"]["stringValue"], "gate");
  const auto& span = resource["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(span["traceId"], "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(span["parentSpanId"], "1111111111111111");
  EXPECT_EQ(span["startTimeUnixNano"], "1700000000000000001");
  EXPECT_EQ(span["attributes"][1]["value"]["intValue"], "2");
  EXPECT_EQ(span["status"]["code"], 2);
}

}  // namespace
}  // namespace spillway
