#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "serving/engine_page.h"
#include "serving/faults.h"
#include "serving/generation.h"
#include "serving/simulated_backend.h"
#include "serving/stop_matcher.h"

namespace spillway {
namespace {

TEST(StopMatcher, NeverShowsAPartOfAStopString) {
  const std::string text = "The dam holds. END of it";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    StopMatcher matcher({"END", "zzz"});
    std::string shown;
    for (std::size_t at = 0; at < text.size(); at += size) {
      shown += matcher.push(std::string_view(text).substr(at, size));
    }
    shown += matcher.finish();

    EXPECT_EQ(shown, "The dam holds. ");
    EXPECT_TRUE(matcher.stopped());
  }
}

TEST(StopMatcher, ShowsWhatOnlyLookedLikeOne) {
  StopMatcher matcher({"END"});

  EXPECT_EQ(matcher.push("an EN"), "an ");
  EXPECT_EQ(matcher.push("T"), "ENT");
  EXPECT_EQ(matcher.push("E"), "");
  EXPECT_EQ(matcher.finish(), "E");
}

std::variant<GenerationRequest, OpenAiError> parse(std::string_view body,
                                                   OpenAiRoute route = OpenAiRoute::kChat) {
  OpenAiRequestParser parser;
  return parse_generation(route, body, parser);
}

TEST(Generation, ReadsWhatACallerWants) {
  const auto parsed = parse(
      R"({"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":5,"temperature":0,"top_k":3,"seed":7,"stop":"END","priority":-2})");

  const auto& request = std::get<GenerationRequest>(parsed);
  EXPECT_EQ(request.max_tokens, 5);
  EXPECT_EQ(request.temperature, 0);
  EXPECT_EQ(request.top_k, 3);
  EXPECT_EQ(request.seed, 7U);
  EXPECT_EQ(request.stop, std::vector<std::string>{"END"});
  EXPECT_EQ(request.priority, -2);
  EXPECT_EQ(std::get<GenerationRequest>(
                parse(R"({"model":"m","prompt":[1,2,3]})", OpenAiRoute::kCompletions))
                .prompt_tokens.size(),
            3U);
}

TEST(Generation, RefusesWhatItCanNotDo) {
  const std::string head = R"({"model":"m","messages":[{"role":"user","content":"x"}],)";
  for (const char* rest : {R"("n":2})", R"("temperature":-1})", R"("temperature":"hot"})",
                           R"("top_p":2})", R"("max_tokens":0})", R"("stop":[""]})", R"("stop":5})",
                           R"("temperature":0,"temperature":1})", R"("seed":1.5})"}) {
    SCOPED_TRACE(rest);
    const auto parsed = parse(head + rest);

    ASSERT_TRUE(std::holds_alternative<OpenAiError>(parsed));
    EXPECT_EQ(std::get<OpenAiError>(parsed).status, 400);
  }
}

TEST(Faults, AreInForceUntilTheirTime) {
  Faults faults;
  const auto order = parse_fault(R"({"fault":"cut","for_s":10,"after_tokens":5})");
  ASSERT_TRUE(order.ok());
  faults.order(Instant(), *order);

  EXPECT_TRUE(faults.is(Fault::kCut, Instant(std::chrono::seconds(9))));
  EXPECT_TRUE(faults.is(Fault::kNone, Instant(std::chrono::seconds(10))));
  EXPECT_EQ(order->after_tokens, 5);
}

TEST(Faults, NameWhatIsKnownWhenTheyAreNot) {
  EXPECT_NE(parse_fault(R"({"fault":"fire"})").error().message.find("malformed_chunk"),
            std::string::npos);
  EXPECT_FALSE(parse_fault("{").ok());
  EXPECT_FALSE(parse_fault(R"({"fault":"wrong_status","status":200})").ok());
}

TEST(SimProfile, IsReadWithItsUnitsAndNamesTheLineThatIsWrong) {
  const auto good =
      load_sim_profile("max_running: 8\nstep_base: 5ms\nper_decode: 50us\n", "p.yaml");
  const auto bad = load_sim_profile("max_running: 8\nstep_base: 5\n", "p.yaml");

  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good->engine.max_running, 8);
  EXPECT_EQ(good->engine.per_decode, std::chrono::microseconds(50));
  ASSERT_FALSE(bad.ok());
  EXPECT_TRUE(bad.error().message.starts_with("p.yaml:2: step_base: \"5\" is not a duration"))
      << bad.error().message;
}

TEST(EnginePage, SaysInVllmsNamesWhatTheBackendKnows) {
  EnginePage page("m");
  page.first_token(std::chrono::milliseconds(30));
  page.ended("stop", std::chrono::seconds(1));

  const PrometheusPage read = parse_prometheus_text(page.text({.running = 2,
                                                               .waiting = 3,
                                                               .kv_usage = 0.5,
                                                               .kv_blocks = 100,
                                                               .prompt_tokens = 7,
                                                               .generation_tokens = 9}));

  EXPECT_EQ(read.unreadable_lines, 0);
  EXPECT_DOUBLE_EQ(read.first("vllm:num_requests_waiting")->value, 3);
  EXPECT_EQ(read.first("vllm:num_requests_waiting")->label("model_name"), "m");
  EXPECT_DOUBLE_EQ(read.first("vllm:kv_cache_usage_perc")->value, 0.5);
  EXPECT_EQ(read.first("vllm:cache_config_info")->label("num_gpu_blocks"), "100");
  EXPECT_DOUBLE_EQ(read.first("vllm:time_to_first_token_seconds_count")->value, 1);
}

}  // namespace
}  // namespace spillway
