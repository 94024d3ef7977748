#include "wire/openai_request.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/rng.h"

namespace spillway {
namespace {

using Json = nlohmann::json;

OpenAiRequest parsed(std::string_view body, OpenAiRoute route = OpenAiRoute::kChat) {
  OpenAiRequestParser parser;
  auto result = parser.parse(route, body);
  EXPECT_TRUE(std::holds_alternative<OpenAiRequest>(result))
      << body << " " << std::get<OpenAiError>(result).message;
  return std::get<OpenAiRequest>(result);
}

OpenAiError refused(std::string_view body, OpenAiRoute route = OpenAiRoute::kChat) {
  OpenAiRequestParser parser;
  auto result = parser.parse(route, body);
  if (std::holds_alternative<OpenAiRequest>(result)) {
    ADD_FAILURE() << "accepted: " << body;
    return {};
  }
  return std::get<OpenAiError>(result);
}

TEST(OpenAiRequest, ReadsWhatTheGatewayDecidesBy) {
  const OpenAiRequest request = parsed(R"( {"model": "m", "stream":true, "max_tokens": 7,
    "stream_options":{"include_usage":true},
    "messages":[{"role":"system","content":"be \u0041"},
                {"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"x"}}]}]} )");

  EXPECT_EQ(request.model, "m");
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.caller_asked_usage);
  EXPECT_EQ(request.max_tokens, 7);
  ASSERT_EQ(request.messages.size(), 2U);
  EXPECT_EQ(request.messages[0].text, "be A");
  EXPECT_EQ(request.messages[1].text, "look");
  EXPECT_EQ(request.messages[1].other_parts, 1);
}

TEST(OpenAiRequest, ReadsPromptsInEveryForm) {
  const auto route = OpenAiRoute::kCompletions;
  EXPECT_EQ(parsed(R"({"model":"m","prompt":"ab"})", route).prompt, "ab");
  EXPECT_EQ(parsed(R"({"model":"m","prompt":["a","b"]})", route).prompt, "ab");
  EXPECT_EQ(parsed(R"({"model":"m","prompt":[1,2,3]})", route).prompt_tokens_given, 3U);
  EXPECT_EQ(parsed(R"({"model":"m","prompt":[[1,2],[3]]})", route).prompt_tokens_given, 3U);
}

TEST(OpenAiRequest, TakesMaxCompletionTokensBeforeMaxTokens) {
  EXPECT_EQ(
      parsed(
          R"({"model":"m","messages":[{"role":"user"}],"max_completion_tokens":5,"max_tokens":9})")
          .max_tokens,
      5);
  EXPECT_EQ(
      parsed(
          R"({"model":"m","messages":[{"role":"user"}],"max_completion_tokens":null,"max_tokens":9})")
          .max_tokens,
      9);
}

TEST(OpenAiRequest, RefusesADuplicateOfEveryKeyThatIsReadOrWritten) {
  for (
      const char* body : {
          R"({"model":"a","model":"b","messages":[{"role":"user"}]})",
          R"({"model":"a","\u006dodel":"b","messages":[{"role":"user"}]})",
          R"({"model":"a","messages":[{"role":"user"}],"messages":[]})",
          R"({"model":"a","messages":[{"role":"user"}],"max_tokens":1,"max_tokens":100000})",
          R"({"model":"a","messages":[{"role":"user"}],"max_tokens":1,"max\u005ftokens":100000})",
          R"({"model":"a","messages":[{"role":"user"}],"max_completion_tokens":1,"max_completion_tokens":2})",
          R"({"model":"a","messages":[{"role":"user"}],"stream":true,"stream":false})",
          R"({"model":"a","messages":[{"role":"user"}],"n":1,"n":128})",
          R"({"model":"a","messages":[{"role":"user"}],"priority":1,"priority":0})",
          R"({"model":"a","messages":[{"role":"user"}],"stream_options":{},"stream_options":{}})",
          R"({"model":"a","messages":[{"role":"user"}],"stream_options":{"include_usage":true,"include_usage":false}})",
          R"({"model":"a","messages":[{"role":"user","role":"system"}]})",
          R"({"model":"a","messages":[{"role":"user","content":"x","content":"y"}]})",
          R"({"model":"a","messages":[{"role":"user","content":[{"type":"text","text":"x","text":"y"}]}]})",
      }) {
    SCOPED_TRACE(body);
    const OpenAiError error = refused(body);

    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.code, "duplicate_key");
    EXPECT_FALSE(error.param.empty());
  }
}

TEST(OpenAiRequest, LeavesDuplicatesOfForeignKeysToTheEngine) {
  parsed(R"({"model":"a","messages":[{"role":"user"}],"x":1,"x":2})");
}

TEST(OpenAiRequest, RefusesMalformedBodies) {
  for (const char* body : {
           "",
           "{",
           "[]",
           "null",
           "\"x\"",
           "{\"model\":\"m\",}",
           "{'model':'m'}",
           R"({"model":"m","messages":[{"role":"user"}]} x)",
           R"({"messages":[{"role":"user"}]})",
           R"({"model":1,"messages":[{"role":"user"}]})",
           R"({"model":"m"})",
           R"({"model":"m","messages":[]})",
           R"({"model":"m","messages":{}})",
           R"({"model":"m","messages":["x"]})",
           R"({"model":"m","messages":[{"content":"x"}]})",
           R"({"model":"m","messages":[{"role":"user","content":5}]})",
           R"({"model":"m","messages":[{"role":"user"}],"max_tokens":-1})",
           R"({"model":"m","messages":[{"role":"user"}],"max_tokens":1.5})",
           R"({"model":"m","messages":[{"role":"user"}],"max_tokens":"7"})",
           R"({"model":"m","messages":[{"role":"user"}],"max_tokens":99999999999999999999})",
           R"({"model":"m","messages":[{"role":"user"}],"stream":"yes"})",
           R"({"model":"m","messages":[{"role":"user"}],"stream_options":true})",
           R"({"model":"m","messages":[{"role":"user"}],"x":nan})",
           R"({"model":"m","messages":[{"role":"user"}],"x":01})",
           "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}",
           R"({"model":"m","messages":[{"role":"user","content":"emoji \ud83d"}]})",
           R"({"model":"m","messages":[{"role":"user","content":"x \ude00 y"}]})",
       }) {
    SCOPED_TRACE(body);
    EXPECT_EQ(refused(body).status, 400);
  }
}

TEST(OpenAiRequest, BoundsTheDepth) {
  std::string deep = R"({"model":"m","messages":[{"role":"user"}],"x":)" + std::string(10000, '[') +
                     std::string(10000, ']') + "}";

  EXPECT_EQ(refused(deep).status, 400);
}

TEST(ApplyEdits, WritesTheBudgetWhereTheCallerHadIt) {
  struct Case {
    const char* before;
    const char* after;
  };
  for (const Case& c : {
           Case{R"({"model":"m","max_tokens": 900,"messages":[{"role":"user"}]})",
                R"({"model":"m","max_tokens": 64,"messages":[{"role":"user"}]})"},
           Case{R"({"model":"m","max_completion_tokens":900 ,"messages":[{"role":"user"}]})",
                R"({"model":"m","max_completion_tokens":64 ,"messages":[{"role":"user"}]})"},
           Case{R"({"model":"m","max_tokens":null,"messages":[{"role":"user"}]})",
                R"({"model":"m","max_tokens":64,"messages":[{"role":"user"}]})"},
           Case{R"( { "model":"m","messages":[{"role":"user"}]})",
                R"( {"max_tokens":64, "model":"m","messages":[{"role":"user"}]})"},
       }) {
    SCOPED_TRACE(c.before);
    EXPECT_EQ(apply_edits(parsed(c.before), c.before, {.max_tokens = 64}), c.after);
  }
}

TEST(ApplyEdits, AsksForUsageInEveryForm) {
  for (const char* options :
       {"", R"("stream_options":null,)", R"("stream_options":{},)", R"("stream_options":{ },)",
        R"("stream_options":{"include_usage":false},)", R"("stream_options":{"a":1},)"}) {
    SCOPED_TRACE(options);
    const std::string body =
        std::string("{") + options + R"("model":"m","messages":[{"role":"user","content":"x"}]})";

    const Json after = Json::parse(apply_edits(parsed(body), body, {.include_usage = true}));

    EXPECT_EQ(after["stream_options"]["include_usage"], true);
  }
}

Json random_value(Rng& rng, int depth) {
  switch (rng.below(depth > 2 ? 4 : 6)) {
    case 0:
      return rng.below(1000);
    case 1:
      return "te\"xt\\ 你\n" + std::to_string(rng.below(100));
    case 2:
      return nullptr;
    case 3:
      return rng.below(2) == 0;
    case 4: {
      Json list = Json::array();
      for (std::uint64_t n = rng.below(4); n > 0; --n) {
        list.push_back(random_value(rng, depth + 1));
      }
      return list;
    }
    default: {
      Json object = Json::object();
      for (std::uint64_t n = rng.below(4); n > 0; --n) {
        object["k" + std::to_string(rng.below(10))] = random_value(rng, depth + 1);
      }
      return object;
    }
  }
}

// Whatever the request and the edits: the result is JSON, says what was asked, and nothing else
// changed.
TEST(ApplyEdits, ChangesWhatWasAskedAndNothingElse) {
  Rng rng(77);
  for (int round = 0; round < 2000; ++round) {
    Json body =
        random_value(rng, 3).is_null() ? Json::object() : Json{{"zz", random_value(rng, 0)}};
    body["model"] = "m";
    const std::size_t count = 1 + rng.below(6);
    for (std::size_t i = 0; i < count; ++i) {
      body["messages"].push_back(
          {{"role", "user"}, {"content", "m" + std::to_string(i)}, {"x", random_value(rng, 1)}});
    }
    if (rng.below(2) == 0) {
      body["max_tokens"] = rng.below(1000);
    }
    if (rng.below(2) == 0) {
      body["max_completion_tokens"] = rng.below(1000);
    }
    if (rng.below(2) == 0) {
      body["stream_options"] =
          Json::array({nullptr, Json::object(), Json{{"include_usage", false}}})[rng.below(3)];
    }
    if (rng.below(3) == 0) {
      body["priority"] = 4;
    }
    const std::string text = body.dump(rng.below(2) == 0 ? -1 : 2);
    RequestEdits edits;
    Json expected = body;
    if (rng.below(2) == 0) {
      edits.max_tokens = 17;
      const bool both_absent =
          !body.contains("max_tokens") && !body.contains("max_completion_tokens");
      for (const char* key : {"max_tokens", "max_completion_tokens"}) {
        if (body.contains(key) || (both_absent && std::string_view(key) == "max_tokens")) {
          expected[key] = 17;
        }
      }
    }
    if (rng.below(2) == 0) {
      edits.include_usage = true;
      if (!expected["stream_options"].is_object()) {
        expected["stream_options"] = Json::object();
      }
      expected["stream_options"]["include_usage"] = true;
    }
    if (rng.below(2) == 0) {
      edits.priority = -3;
      expected["priority"] = -3;
    }
    if (rng.below(2) == 0) {
      edits.model = "other \"name\"";
      expected["model"] = *edits.model;
    }
    Json kept = Json::array();
    for (std::size_t i = 0; i < count; ++i) {
      if (rng.below(3) == 0) {
        edits.dropped_messages.push_back(i);
      } else {
        kept.push_back(body["messages"][i]);
      }
    }
    expected["messages"] = kept;

    const std::string after = apply_edits(parsed(text), text, edits);

    ASSERT_TRUE(Json::accept(after)) << after;
    ASSERT_EQ(Json::parse(after), expected) << text;
  }
}

}  // namespace
}  // namespace spillway
