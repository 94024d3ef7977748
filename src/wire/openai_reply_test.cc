#include "wire/openai_reply.h"

#include <gtest/gtest.h>

#include "wire/openai_error.h"

namespace spillway {
namespace {

ReplyFacts read(std::string_view json) {
  ReplyReader reader;
  return reader.read(json);
}

TEST(ReplyReader, SeesContentInEveryForm) {
  for (const char* json :
       {R"({"choices":[{"delta":{"content":"a"}}]})", R"({"choices":[{"text":"a"}]})",
        R"({"choices":[{"delta":{"reasoning_content":"a"}}]})",
        R"({"choices":[{"delta":{"tool_calls":[{"index":0}]}}]})",
        R"({"choices":[{"message":{"content":"a"}}]})"}) {
    SCOPED_TRACE(json);
    EXPECT_TRUE(read(json).has_content);
  }
  EXPECT_FALSE(read(R"({"choices":[{"delta":{"role":"assistant","content":""}}]})").has_content);
}

TEST(ReplyReader, ToleratesWhateverAnEngineSends) {
  EXPECT_FALSE(ReplyReader().read(std::string_view()).is_json);
  for (const char* json :
       {"", "[DONE]", ": keepalive", "{", "null", "[]", R"({"choices":null})", R"({"choices":[]})",
        R"({"choices":[null]})", R"({"usage":null,"choices":[{}]})",
        R"({"usage":{"prompt_tokens":3}})", "\xff\xfe"}) {
    SCOPED_TRACE(json);
    const ReplyFacts facts = read(json);

    EXPECT_FALSE(facts.has_content);
    EXPECT_FALSE(facts.usage_only);
    EXPECT_FALSE(facts.is_error);
  }
}

TEST(ReplyReader, ReadsUsageAndTheEnd) {
  const ReplyFacts last = read(R"({"choices":[{"delta":{},"finish_reason":"length"}]})");
  const ReplyFacts usage =
      read(R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}})");

  EXPECT_EQ(last.finish_reason, "length");
  EXPECT_TRUE(usage.usage_only);
  EXPECT_EQ(usage.usage->prompt_tokens, 3);
}

TEST(ReplyReader, CountsThatCannotBeAreUnknown) {
  for (const char* counts : {R"("prompt_tokens":-1,"completion_tokens":1)",
                             R"("prompt_tokens":3,"completion_tokens":-7)",
                             R"("prompt_tokens":3,"completion_tokens":1e3)",
                             R"("prompt_tokens":18446744073709551615,"completion_tokens":1)",
                             R"("prompt_tokens":4000000000,"completion_tokens":1)",
                             R"("prompt_tokens":3,"completion_tokens":"1","total_tokens":4)",
                             R"("prompt_tokens":3,"total_tokens":-1)"}) {
    SCOPED_TRACE(counts);
    const ReplyFacts facts =
        read((std::string(R"({"choices":[],"usage":{)") + counts + "}}").c_str());

    EXPECT_FALSE(facts.usage);
    EXPECT_TRUE(facts.usage_only);  // it still is the chunk that the caller did not ask for
  }
}

TEST(ReplyReader, SeesErrorsOfEveryShape) {
  const ReplyFacts nested = read(R"({"error":{"message":"full","code":503}})");
  const ReplyFacts flat = read(R"({"object":"error","message":"bad","code":400})");
  const ReplyFacts text = read(R"({"error":"overloaded","error_type":"overloaded"})");

  EXPECT_TRUE(nested.is_error);
  EXPECT_EQ(nested.error_code, 503);
  EXPECT_EQ(flat.error_message, "bad");
  EXPECT_EQ(text.error_message, "overloaded");
}

TEST(OpenAiError, HasTheShapeThatClientsRead) {
  EXPECT_EQ(
      to_json({.message = "no \"x\"", .param = "model", .code = "model_not_found"}),
      R"({"error":{"message":"no \"x\"","type":"invalid_request_error","param":"model","code":"model_not_found"}})");
  EXPECT_EQ(to_json({.message = "\xff"}),
            "{\"error\":{\"message\":\"\xEF\xBF\xBD\",\"type\":\"invalid_request_error\",\"param\":"
            "null,\"code\":null}}");
}

TEST(LengthChunk, IsMadeAfterAnyChunkAndNeverFails) {
  EXPECT_EQ(length_chunk(R"({"id":"c","object":"chat.completion.chunk","choices":[{}]})", 1),
            R"({"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},)"
            R"("logprobs":null,"finish_reason":"length"}]})");
  EXPECT_NE(length_chunk(R"({"object":"text_completion"})", 1).find(R"("text":"")"),
            std::string::npos);
  for (const char* like :
       {R"({"object":[1]})", R"({"object":null})", R"({"object":{"a":1}})", "{}"}) {
    EXPECT_EQ(read(length_chunk(like, 2).c_str()).finish_reason, "length") << like;
    EXPECT_EQ(read(usage_chunk_like(like, {}).c_str()).usage->prompt_tokens, 0) << like;
  }
  for (const char* none : {"", "[]", "null", "{", "5"}) {
    EXPECT_EQ(length_chunk(none, 1), "") << none;
  }
}

}  // namespace
}  // namespace spillway
