#include <algorithm>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "main/load_report.h"
#include "main/load_trace.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(LoadTrace, IsReadShapedAndItsClampingCounted) {
  Rng rng(1);
  const auto load = load_from_trace(
      "timestamp_ms,prompt_tokens,output_tokens\n1000,100,10\r\n3000,900,80,extra\n", "t.csv",
      {.speed = 2, .max_prompt = 500, .max_output = 50}, rng);

  ASSERT_TRUE(load.ok()) << load.error().message;
  ASSERT_EQ(load->arrivals.size(), 2U);
  EXPECT_EQ(load->arrivals[1].at, seconds(1));
  EXPECT_EQ(load->arrivals[1].prompt_tokens, 500);
  EXPECT_EQ(load->prompts_clamped, 1);
  EXPECT_EQ(load->outputs_clamped, 1);
}

TEST(LoadTrace, NamesTheLineThatIsWrong) {
  Rng rng(1);
  for (const char* text : {"1,2,3\n1,x,3\n", "1,2,3\n1,2\n", "1,2,3\n-1,2,3\n"}) {
    SCOPED_TRACE(text);
    const auto load = load_from_trace(text, "t.csv", {}, rng);

    ASSERT_FALSE(load.ok());
    EXPECT_TRUE(load.error().message.starts_with("t.csv:2: "));
  }
}

TEST(LoadAtRate, ComesAtTheRateAndInTheMix) {
  Rng rng(3);
  LoadShape shape;
  ASSERT_TRUE(parse_class_mix("critical=10,normal=90", shape).ok());

  const Load load = load_at_rate(50, seconds(100), 10, 10, shape, rng);

  EXPECT_NEAR(static_cast<double>(load.arrivals.size()), 5000, 250);
  const auto critical = std::ranges::count(load.arrivals, QosClass::kCritical, &Arrival::qos_class);
  EXPECT_NEAR(static_cast<double>(critical), 500, 80);
  EXPECT_EQ(std::ranges::count(load.arrivals, QosClass::kHigh, &Arrival::qos_class), 0);
}

TEST(ClassMix, RefusesNonsense) {
  LoadShape shape;
  for (const char* text : {"", "vip=1", "critical", "critical=x", "critical=-1", "normal=0"}) {
    SCOPED_TRACE(text);
    EXPECT_FALSE(parse_class_mix(text, shape).ok());
  }
}

TEST(LoadReport, CountsEveryRequestOnceAndMeasuresAgainstAllThatWereSent) {
  LoadReport report{.seconds = 10, .slo_seconds = 1};
  report.add({.qos_class = QosClass::kHigh,
              .ok = true,
              .ttft = 0.5,
              .gaps = {0.1F},
              .tokens = 20,
              .level = "0"});
  report.add({.qos_class = QosClass::kHigh,
              .ok = true,
              .ttft = 2,
              .tokens = 20,
              .level = "1",
              .degraded = true});
  report.add({.qos_class = QosClass::kHigh, .error = "429", .level = "1"});
  report.add({.qos_class = QosClass::kHigh, .error = "cut", .ttft = 0.1});

  const auto json = nlohmann::json::parse(to_json(report));

  EXPECT_EQ(json["all"]["sent"], 4);
  EXPECT_EQ(json["all"]["ok"].get<int>() + json["all"]["refused"].get<int>() +
                json["all"]["failed"].get<int>(),
            4);
  EXPECT_DOUBLE_EQ(json["classes"]["high"]["share_within_slo"], 0.25);
  EXPECT_DOUBLE_EQ(json["all"]["tokens_per_second"], 4);
  EXPECT_EQ(json["levels"]["1"], 2);
  EXPECT_NE(to_table(report).find("error cut: 1"), std::string::npos);
}

TEST(Quantile, IsTheNearestRank) {
  EXPECT_EQ(quantile({}, 0.5), 0);
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(quantile({3, 1, 2}, 1), 3);
  EXPECT_EQ(quantile({3, 1, 2}, 0), 1);
}

}  // namespace
}  // namespace spillway
