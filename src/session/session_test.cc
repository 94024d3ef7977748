// Whole requests over bytes, without a socket: what the caller and the engine send, and what each
// of them gets.
#include "session/session.h"

#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Json = nlohmann::json;

std::shared_ptr<const Policy> budget_and_shed() {
  Policy policy;
  const QosClassSet everyone = QosClassSet().set();
  policy.rungs = {{.name = "short",
                   .enter = 0.85,
                   .hysteresis = 0.1,
                   .actions = {BudgetRule{.max_tokens = 16, .classes = everyone},
                               TruncateRule{.prompt_tokens = 60, .classes = everyone}}},
                  {.name = "shed",
                   .enter = 0.85,
                   .hysteresis = 0.1,
                   .actions = {ShedRule{.classes = everyone, .retry_after = seconds(8)}}}};
  return std::make_shared<const Policy>(policy);
}

// A gateway of one session, driven by hand.
class SessionTest : public testing::Test {
 protected:
  SessionTest() : services_(1) {
    Snapshot snapshot;
    snapshot.policy = budget_and_shed();
    snapshot.config.limits.body_bytes = 4096;
    PoolConfig pool;
    pool.name = "chat";
    pool.models = {"m", "alias"};
    pool.replicas = {{{"127.0.0.1", 8000}}, {{"127.0.0.1", 8001}}};
    snapshot.config.pools = {pool};
    services_.pools.apply(snapshot.config, snapshot.policy);
    services_.snapshot = std::make_shared<const Snapshot>(std::move(snapshot));
    session_ = std::make_unique<Session>(services_, now_);
  }

  // What the caller has been sent since the last look.
  std::string seen(Side side = Side::kCaller) {
    const std::string bytes(session_->output(side));
    session_->sent(side, bytes.size());
    return bytes;
  }

  void take() {
    for (Effect& effect : session_->take_effects()) {
      if (const auto* ended = std::get_if<RequestEnded>(&effect)) {
        records_.push_back(ended->record);
      } else if (const auto* connect = std::get_if<ConnectEngine>(&effect)) {
        connects_.push_back(*connect);
      } else if (const auto* release = std::get_if<ReleaseEngine>(&effect)) {
        releases_.push_back(*release);
      } else {
        caller_closed_ = true;
      }
    }
  }

  void caller(std::string_view bytes) {
    session_->feed(Side::kCaller, bytes, now_);
    take();
  }
  void engine(std::string_view bytes) {
    session_->feed(Side::kEngine, bytes, now_);
    take();
  }
  void connected(bool reused = false) {
    session_->connected(reused, now_);
    take();
  }

  void ask(const std::string& body, const std::string& fields = "") {
    caller("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\n" + fields +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  void ask_stream() {
    ask(R"({"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]})");
  }
  void ask_whole() { ask(R"({"model":"m","messages":[{"role":"user","content":"hi"}]})"); }

  void pin(int level) {
    services_.pools.named("chat")->pin_level(level);
    services_.pools.named("chat")->tick(now_);
  }

  static std::string chunk(const std::string& payload) {
    std::string out;
    append_chunk(out, payload);
    return out;
  }
  static std::string body_of(const std::string& message) {
    return message.substr(message.find("\r\n\r\n") + 4);
  }

  // Only one replica: nobody to go to.
  void alone() {
    Snapshot snapshot = *services_.snapshot;
    snapshot.config.pools[0].replicas.pop_back();
    services_.pools.apply(snapshot.config, snapshot.policy);
    services_.snapshot = std::make_shared<const Snapshot>(std::move(snapshot));
  }
  static std::string whole(const std::string& body, int status = 200,
                           const std::string& fields = "") {
    return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: application/json\r\n" +
           fields + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  void engine_closes() {
    session_->closed(Side::kEngine, now_);
    take();
  }
  void wake_at(Instant at) {
    now_ = at;
    session_->wake(now_);
    take();
  }

  static constexpr const char* kAnswer =
      R"({"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]})";
  static constexpr const char* kRole =
      "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
  static constexpr const char* kStreamHead =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
  static constexpr const char* kToken = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
  static constexpr const char* kStop =
      "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
  static constexpr const char* kUsage =
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\n";

  Instant now_;
  Services services_;
  std::unique_ptr<Session> session_;
  std::vector<RequestRecord> records_;
  std::vector<ConnectEngine> connects_;
  std::vector<ReleaseEngine> releases_;
  bool caller_closed_ = false;
};

TEST_F(SessionTest, PassesAStreamThroughByteForByteAndTakesOurUsageChunkOut) {
  ask_stream();
  ASSERT_EQ(connects_.size(), 1U);
  connected();
  const std::string request = seen(Side::kEngine);
  EXPECT_TRUE(request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"));
  EXPECT_NE(request.find("host: 127.0.0.1:8000\r\n"), std::string::npos);
  EXPECT_EQ(Json::parse(body_of(request))["stream_options"]["include_usage"], true);

  engine(kStreamHead);
  EXPECT_EQ(seen(), "");  // the status waits for the first event
  engine(chunk(kToken));
  const std::string first = seen();
  EXPECT_TRUE(first.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(first.find("x-spillway-level: 0\r\n"), std::string::npos);
  EXPECT_TRUE(first.ends_with(chunk(kToken)));
  engine(chunk(kStop) + chunk(kUsage) + chunk("data: [DONE]\n\n") + "0\r\n\r\n");

  EXPECT_EQ(seen(), chunk(std::string(kStop) + "data: [DONE]\n\n") + "0\r\n\r\n");
  ASSERT_EQ(records_.size(), 1U);
  EXPECT_EQ(records_[0].outcome, Outcome::kOk);
  EXPECT_EQ(records_[0].prompt_tokens, 9);
  EXPECT_EQ(records_[0].output_tokens, 1);
  EXPECT_TRUE(releases_.at(0).reusable);
  EXPECT_FALSE(caller_closed_);
}

TEST_F(SessionTest, GivesTheSameBytesWhereverTheReadsAreCut) {
  std::string expected;
  const std::string reply =
      kStreamHead + chunk(": ping\n\n") +
      chunk("data: {\"choices\":[{\"delta\":{\"content\":\"你🙂\"}}]}\r\n\r\n") + chunk(kStop) +
      chunk(kUsage) + chunk("data: [DONE]\n\n") + "0\r\n\r\n";
  const auto payload = [](std::string wire) {
    std::string out;
    wire = wire.substr(wire.find("\r\n\r\n") + 4);
    BodyDecoder decoder({BodyFraming::Kind::kChunked});
    while (!decoder.done()) {
      const auto piece = std::get<BodyDecoder::Piece>(decoder.decode(wire));
      out.append(piece.payload);
      wire.erase(0, piece.consumed);
    }
    return out;
  };
  for (std::size_t size : {100000U, 1U, 2U, 3U, 5U, 11U}) {
    SCOPED_TRACE(size);
    ask_stream();
    connected();
    seen(Side::kEngine);
    for (std::size_t at = 0; at < reply.size(); at += size) {
      engine(reply.substr(at, size));
    }
    const std::string got = payload(seen());

    expected = expected.empty() ? got : expected;
    EXPECT_EQ(got, expected);
    EXPECT_EQ(records_.back().outcome, Outcome::kOk);
  }
  EXPECT_EQ(expected.find("usage"), std::string::npos);
}

TEST_F(SessionTest, KeepsTheUsageChunkForACallerWhoAskedForIt) {
  ask(R"({"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user"}]})");
  connected();
  engine(kStreamHead + chunk(kToken) + chunk(kStop) + chunk(kUsage) + chunk("data: [DONE]\n\n") +
         "0\r\n\r\n");

  EXPECT_NE(seen().find(kUsage), std::string::npos);
}

TEST_F(SessionTest, PassesAReplyInOnePiece) {
  const std::string body =
      R"({"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}})";
  ask_whole();
  connected();
  engine("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Engine: y\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body.substr(0, 5));
  EXPECT_EQ(seen(), "");
  engine(body.substr(5));

  const std::string reply = seen();
  EXPECT_NE(reply.find("X-Engine: y\r\n"), std::string::npos);
  EXPECT_TRUE(reply.ends_with("\r\n\r\n" + body));
  EXPECT_EQ(records_.at(0).output_tokens, 2);
}

TEST_F(SessionTest, AppliesTheActionsOfTheLevelAndSaysSo) {
  pin(1);
  std::string messages;
  for (int i = 0; i < 5; ++i) {
    messages +=
        std::string(i > 0 ? "," : "") + R"({"role":")" + (i % 2 == 0 ? "user" : "assistant") +
        R"(","content":"one two three four five six seven eight nine ten eleven twelve thirteen"})";
  }
  ask(R"({"model":"alias","max_completion_tokens":500,"messages":[)" + messages + "]}",
      "x-spillway-class: high\r\n");
  connected();

  const Json sent = Json::parse(body_of(seen(Side::kEngine)));
  EXPECT_EQ(sent["max_completion_tokens"], 16);
  EXPECT_EQ(sent["messages"].size(), 3U);
  EXPECT_EQ(sent["model"], "m");
  engine(whole(kAnswer));
  const std::string reply = seen();
  EXPECT_NE(reply.find("x-spillway-level: 1\r\n"), std::string::npos);
  EXPECT_THAT(reply,
              testing::ContainsRegex("x-spillway-actions: budget=16 truncate=[0-9]+>[0-9]+\r\n"));
  EXPECT_EQ(records_.at(0).level, 1);
  EXPECT_EQ(records_.at(0).qos_class, QosClass::kHigh);
}

TEST_F(SessionTest, ShedsWithAStatusTheCallersLibrariesUnderstand) {
  pin(2);

  ask_stream();

  const std::string reply = seen();
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 429 "));
  EXPECT_NE(reply.find("\r\nretry-after: "), std::string::npos);
  EXPECT_NE(reply.find("\r\nretry-after-ms: "), std::string::npos);
  EXPECT_EQ(Json::parse(body_of(reply))["error"]["code"], "overloaded");
  EXPECT_TRUE(connects_.empty());
  EXPECT_EQ(records_.at(0).outcome, Outcome::kRefused);
}

TEST_F(SessionTest, AnswersInvalidRequestsItself) {
  struct Case {
    const char* name;
    std::string bytes;
    int status;
  };
  const auto post = [](const std::string& body) {
    return "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  };
  for (const Case& c : std::vector<Case>{
           {"unknown path", "GET /nowhere HTTP/1.1\r\nHost: g\r\n\r\n", 404},
           {"wrong method", "GET /v1/chat/completions HTTP/1.1\r\nHost: g\r\n\r\n", 405},
           {"malformed JSON", post("{"), 400},
           {"duplicate key", post(R"({"model":"m","model":"m","messages":[{"role":"user"}]})"),
            400},
           {"unknown model", post(R"({"model":"x","messages":[{"role":"user"}]})"), 404},
           {"body too large",
            "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 5000\r\n\r\n", 413},
           {"chunked body too large",
            "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: "
            "chunked\r\n\r\n1400\r\n" +
                std::string(0x1400, 'x') + "\r\n",
            413},
           {"not HTTP", "hello\r\n\r\n", 400},
           {"header too large", "GET / HTTP/1.1\r\nHost: g\r\nX: " + std::string(40000, 'x'), 431},
           {"smuggled",
            "POST /v1/models HTTP/1.1\r\nHost: g\r\nContent-Length: 3\r\nTransfer-Encoding: "
            "chunked\r\n\r\n",
            400},
           {"unknown class",
            "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nx-spillway-class: "
            "vip\r\nContent-Length: 2\r\n\r\n{}",
            400},
       }) {
    SCOPED_TRACE(c.name);
    session_ = std::make_unique<Session>(services_, now_);
    records_.clear();

    caller(c.bytes);

    const std::string reply = seen();
    EXPECT_TRUE(reply.starts_with("HTTP/1.1 " + std::to_string(c.status))) << reply;
    EXPECT_NE(reply.find("x-request-id: "), std::string::npos);
    EXPECT_TRUE(Json::parse(body_of(reply))["error"].contains("message"));
    ASSERT_EQ(records_.size(), 1U);
    EXPECT_EQ(records_[0].outcome, Outcome::kInvalid);
    EXPECT_EQ(records_[0].status, c.status);
  }
}

TEST_F(SessionTest, NeverTakesABodyForTheNextRequest) {
  caller(
      "POST /v1/models HTTP/1.1\r\nHost: g\r\nContent-Length: 9000\r\n\r\nGET /livez "
      "HTTP/1.1\r\nHost: g\r\n\r\n");

  EXPECT_TRUE(seen().starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(caller_closed_);
  EXPECT_EQ(records_.size(), 1U);
}

TEST_F(SessionTest, ServesPipelinedRequestsInTheirOrder) {
  caller("GET /livez HTTP/1.1\r\nHost: g\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: g\r\n\r\n");

  const std::string replies = seen();
  EXPECT_LT(replies.find("ok\n"), replies.find("\"id\":\"m\""));
  EXPECT_EQ(records_.size(), 2U);
}

TEST_F(SessionTest, TurnsAFirstEventErrorIntoAStatus) {
  alone();
  ask_stream();
  connected();

  engine(kStreamHead +
         chunk("data: {\"error\":{\"message\":\"The request queue is full.\",\"code\":503}}\n\n"));

  const std::string reply = seen();
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 503 "));
  EXPECT_EQ(Json::parse(body_of(reply))["error"]["message"], "The request queue is full.");
  EXPECT_NE(reply.find("retry-after: "), std::string::npos);
  EXPECT_EQ(records_.at(0).outcome, Outcome::kEngineError);
}

TEST_F(SessionTest, AnErrorBeforeContentIsTriedElsewhereAndTheCallerSeesNothingOfIt) {
  const std::vector<std::string> failures = {
      kStreamHead + chunk("data: {\"error\":{\"message\":\"full\",\"code\":503}}\n\n"),
      kStreamHead + chunk(": ping\n\n") + chunk("data: {\"error\":\"broken\"}\n\n"),
      whole(R"({"error":{"message":"x"}})", 500),
      whole(R"({"error":{"message":"x"}})", 429, "Retry-After: 3\r\n"),
      whole("<html>Bad Gateway</html>", 502),
      whole(R"({"error":{"message":"ResourceExhausted","code":502}})"),
      whole(R"({"id":null,"choices":null})"),
      whole(""),
      whole("<html>503</html>"),
      "SSH-2.0\r\n\r\n",
  };
  for (const std::string& failure : failures) {
    SCOPED_TRACE(failure);
    session_ = std::make_unique<Session>(services_, now_);
    now_ += seconds(70);  // whoever rested has rested
    connects_.clear();
    records_.clear();
    ask_stream();
    connected();
    engine(failure);

    EXPECT_EQ(seen(), "");
    ASSERT_EQ(connects_.size(), 2U);
    EXPECT_NE(connects_[0].replica, connects_[1].replica);
    connected();
    engine(kStreamHead + chunk(kRole) + chunk(kToken) + chunk(kStop) + chunk("data: [DONE]\n\n") +
           "0\r\n\r\n");
    EXPECT_TRUE(seen().ends_with(chunk(std::string(kRole) + kToken + kStop + "data: [DONE]\n\n") +
                                 "0\r\n\r\n"));
    EXPECT_EQ(records_.at(0).retries, 1);
    EXPECT_EQ(records_.at(0).outcome, Outcome::kOk);
  }
}

TEST_F(SessionTest, WhatIsNotTheAnswerYetIsHeldSoThatNothingIsSaidTwice) {
  ask_stream();
  connected();
  engine(kStreamHead + chunk(kRole));
  EXPECT_EQ(seen(), "");
  engine_closes();
  ASSERT_EQ(connects_.size(), 2U);
  connected();
  engine(kStreamHead + chunk(kRole) + chunk(kToken));

  const std::string shown = seen();
  EXPECT_EQ(shown.find(kRole), shown.rfind(kRole));
  EXPECT_TRUE(shown.ends_with(chunk(std::string(kRole) + kToken)));
  engine_closes();  // now it is too late
  EXPECT_EQ(connects_.size(), 2U);
  EXPECT_NE(seen().find("\"error\""), std::string::npos);
}

TEST_F(SessionTest, CriticalIsNotSentAgainAfterAnAnswerButIsMovedFromADeadReplica) {
  const std::string body = R"({"model":"m","messages":[{"role":"user","content":"hi"}]})";
  ask(body, "x-spillway-class: critical\r\n");
  connected();
  engine(whole(R"({"error":{"message":"full"}})", 503));
  EXPECT_TRUE(seen().starts_with("HTTP/1.1 503 "));
  EXPECT_EQ(connects_.size(), 1U);

  now_ += seconds(10);
  ask(body, "x-spillway-class: critical\r\n");
  connected();
  engine_closes();
  ASSERT_EQ(connects_.size(), 3U);
  connected();
  engine(whole(kAnswer));
  EXPECT_TRUE(seen().starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(records_.at(1).failovers, 1);
  EXPECT_EQ(records_.at(1).retries, 0);
}

TEST_F(SessionTest, ACallersMistakeIsNeverSentAgainAndIsNoFailureOfTheReplica) {
  for (int i = 0; i < 10; ++i) {
    connects_.clear();
    ask_whole();
    connected();
    engine(whole(R"({"error":{"message":"too long"}})", 400));
    EXPECT_TRUE(seen().starts_with("HTTP/1.1 400 "));
    EXPECT_EQ(connects_.size(), 1U);
  }
  for (const Replica& replica : services_.pools.named("chat")->replicas()) {
    EXPECT_FALSE(replica.health().down());
  }
}

TEST_F(SessionTest, SendsACommentAfterSilenceAndFromThenOnSpeaksInBand) {
  alone();
  ask_stream();
  connected();
  const Limits& limits = services_.snapshot->config.limits;
  EXPECT_EQ(session_->deadline(), now_ + limits.keepalive_interval);

  wake_at(now_ + limits.keepalive_interval);

  const std::string first = seen();
  EXPECT_TRUE(first.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(first.ends_with(chunk(": keep-alive\n")));
  EXPECT_EQ(first.find("\n\n"), std::string::npos);
  engine(whole(R"({"error":{"message":"out of memory"}})", 500));
  const std::string end = seen();
  EXPECT_NE(end.find("out of memory"), std::string::npos);
  EXPECT_TRUE(end.ends_with(chunk("data: [DONE]\n\n").substr(3) + "0\r\n\r\n"));
  EXPECT_EQ(records_.at(0).outcome, Outcome::kEngineError);
}

TEST_F(SessionTest, ACommentDoesNotForbidAnotherAttempt) {
  ask_stream();
  connected();
  engine(kStreamHead + chunk(kRole));
  wake_at(now_ + services_.snapshot->config.limits.keepalive_interval);
  EXPECT_EQ(seen().find(kRole), std::string::npos);
  engine_closes();
  ASSERT_EQ(connects_.size(), 2U);
  connected();
  engine(kStreamHead + chunk(kRole) + chunk(kToken) + chunk(kStop) + chunk("data: [DONE]\n\n") +
         "0\r\n\r\n");

  EXPECT_EQ(seen(), chunk(std::string(kRole) + kToken + kStop + "data: [DONE]\n\n") + "0\r\n\r\n");
  EXPECT_EQ(records_.at(0).outcome, Outcome::kOk);
}

TEST_F(SessionTest, EndsAStreamAtAHardBudgetAsTheEngineWouldHave) {
  pin(1);  // 16 tokens
  ask(R"({"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user"}]})");
  connected();
  const std::string token =
      "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":5,\"model\":\"m\","
      "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
  std::string stream = kStreamHead;
  for (int i = 0; i < 30; ++i) {
    stream += chunk(token);  // an engine that does not care about max_tokens
  }
  engine(stream);

  const std::string reply = seen();
  std::size_t tokens = 0;
  for (std::size_t at = 0; (at = reply.find(token, at)) != std::string::npos; ++at) {
    ++tokens;
  }
  EXPECT_EQ(tokens, 16U);
  EXPECT_NE(reply.find(R"("finish_reason":"length")"), std::string::npos);
  EXPECT_NE(reply.find(R"("completion_tokens":16)"), std::string::npos);
  EXPECT_NE(reply.find(R"("id":"c1","object":"chat.completion.chunk","created":5,"model":"m")",
                       reply.rfind(token) + token.size()),
            std::string::npos);
  EXPECT_TRUE(reply.ends_with("0\r\n\r\n"));
  EXPECT_EQ(records_.at(0).output_tokens, 16);
  EXPECT_FALSE(releases_.at(0).reusable);  // which is how the engine learns of it
}

TEST_F(SessionTest, AHardRungEndsStreamsThatRunAlready) {
  Policy policy = *services_.snapshot->policy;
  std::get<BudgetRule>(policy.rungs[0].actions[0]).hard = true;
  Snapshot snapshot = *services_.snapshot;
  snapshot.policy = std::make_shared<const Policy>(policy);
  services_.pools.apply(snapshot.config, snapshot.policy);
  services_.snapshot = std::make_shared<const Snapshot>(std::move(snapshot));
  ask_stream();
  connected();
  engine(kStreamHead);
  for (int i = 0; i < 20; ++i) {
    engine(chunk(kToken));
  }
  EXPECT_TRUE(records_.empty());

  pin(1);
  engine(chunk(kToken));

  EXPECT_NE(seen().find(R"("finish_reason":"length")"), std::string::npos);
  EXPECT_EQ(records_.at(0).output_tokens, 20);
}

TEST_F(SessionTest, RefusesWhatWasLiveInTwoCrashes) {
  ask_stream();
  connected();
  engine_closes();
  connected();
  engine_closes();

  const std::string reply = seen();
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 502 ")) << reply;
  EXPECT_EQ(Json::parse(body_of(reply))["error"]["code"], "poison_request");
  EXPECT_NE(reply.find("x-should-retry: false"), std::string::npos);
  now_ += seconds(20);
  ask_stream();
  EXPECT_NE(seen().find("poison_request"), std::string::npos);
  EXPECT_EQ(connects_.size(), 2U);
  ask_whole();  // another body
  EXPECT_EQ(connects_.size(), 3U);
}

TEST_F(SessionTest, LeavesAReplicaThatHangs) {
  ask_stream();
  connected();
  const std::string hanging = connects_[0].replica;
  session_->replica_hangs("elsewhere:1", now_);
  take();
  EXPECT_EQ(connects_.size(), 1U);
  session_->replica_hangs(hanging, now_);
  take();

  ASSERT_EQ(connects_.size(), 2U);
  EXPECT_NE(connects_[1].replica, hanging);
}

TEST_F(SessionTest, AnUnreadableEventPassesAndIsCounted) {
  ask_stream();
  connected();
  const std::string broken = "data: {\"choices\":[{\"delta\":{\"content\":\"b\"}\n\n";
  engine(kStreamHead + chunk("data: : keepalive\n\n") + chunk(kToken) + chunk(broken) +
         chunk(kToken) + chunk("data: [DONE]\n\n") + "0\r\n\r\n");

  const std::string reply = seen();
  EXPECT_NE(reply.find(broken), std::string::npos);
  EXPECT_EQ(records_.at(0).outcome, Outcome::kOk);
  EXPECT_EQ(records_.at(0).unreadable, 2);
  EXPECT_EQ(records_.at(0).output_tokens, 2);
  EXPECT_TRUE(records_.at(0).usage_counted);
}

TEST_F(SessionTest, SlowHeadsAndBodiesHaveAnAbsoluteDeadline) {
  const Limits& limits = services_.snapshot->config.limits;
  now_ += seconds(50);  // idle is something else
  caller("POST /v1/models HTTP/1.1\r\n");
  const Instant head = now_;
  for (int i = 0; i < 5; ++i) {
    now_ += seconds(1);
    caller("x");
    EXPECT_EQ(session_->deadline(), head + limits.header_timeout);
  }
  wake_at(head + limits.header_timeout);
  EXPECT_TRUE(seen().starts_with("HTTP/1.1 408 "));
  EXPECT_TRUE(caller_closed_);

  session_ = std::make_unique<Session>(services_, now_);
  caller("POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
  const Instant body = now_;
  now_ += seconds(30);
  caller("x");
  EXPECT_EQ(session_->deadline(), body + limits.body_timeout);
  wake_at(body + limits.body_timeout);
  EXPECT_TRUE(seen().starts_with("HTTP/1.1 408 "));
  EXPECT_TRUE(connects_.empty());  // no engine waited for it
}

TEST_F(SessionTest, ARequestThatEndsHalfWayIsAMistakeAndNotAMystery) {
  for (const char* half : {"POST /v1/comp",
                           "POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
                           "Content-Length: 500\r\n\r\n{\"model\":\"m\"}"}) {
    session_ = std::make_unique<Session>(services_, now_);
    caller_closed_ = false;
    caller(half);
    session_->closed(Side::kCaller, now_);
    take();

    EXPECT_TRUE(seen().starts_with("HTTP/1.1 400 "));
    EXPECT_TRUE(caller_closed_);
    EXPECT_EQ(records_.back().outcome, Outcome::kInvalid);
  }
}

TEST_F(SessionTest, CallersMayAskForTheirOwnTimeoutsWithinLimits) {
  const std::string body = R"({"model":"m","stream":true,"messages":[{"role":"user"}]})";
  ask(body, "X-Spillway-First-Token-Timeout-Ms: 700\r\nx-spillway-timeout-ms: 900\r\n");
  connected();
  EXPECT_EQ(seen(Side::kEngine).find("illway-"), std::string::npos);
  EXPECT_EQ(session_->deadline(), now_ + milliseconds(700));
  engine(kStreamHead + chunk(kToken));
  EXPECT_EQ(session_->deadline(), now_ + milliseconds(900));

  session_ = std::make_unique<Session>(services_, now_);
  ask(body,
      "x-spillway-timeout-ms: 99999999999\r\nx-spillway-first-token-timeout-ms: 99999999999\r\n");
  connected();
  now_ += services_.snapshot->config.limits.caller_timeout_max;
  session_->wake(now_);
  take();
  EXPECT_EQ(records_.at(0).outcome, Outcome::kTimeout);

  for (const char* bad : {"0", "-1", "x", "1.5", ""}) {
    session_ = std::make_unique<Session>(services_, now_);
    seen();
    ask(body, std::string("x-spillway-timeout-ms: ") + bad + "\r\n");
    EXPECT_TRUE(seen().starts_with("HTTP/1.1 400 ")) << bad;
  }
}

TEST_F(SessionTest, TheBypassIsAPlainProxy) {
  pin(2);
  services_.bypass_until = now_ + seconds(60);
  const std::string body =
      R"({"model":"m","stream":true,"max_tokens":500,"messages":[{"role":"user","content":"hi"}]})";
  ask(body);
  connected();

  EXPECT_EQ(body_of(seen(Side::kEngine)), body);
  engine(kStreamHead + chunk(kToken) + chunk(kUsage) + chunk("data: [DONE]\n\n") + "0\r\n\r\n");
  const std::string reply = seen();
  EXPECT_NE(reply.find(kUsage), std::string::npos);
  EXPECT_NE(reply.find("x-spillway-actions: bypass\r\n"), std::string::npos);
  EXPECT_EQ(records_.at(0).outcome, Outcome::kOk);
}

TEST_F(SessionTest, OtherRoutesAreForwardedAndNoOthers) {
  const auto post = [&](const std::string& path, const std::string& body) {
    session_ = std::make_unique<Session>(services_, now_);
    connects_.clear();
    caller("POST " + path + " HTTP/1.1\r\nHost: g\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  for (const char* path : {"/v1/embeddings", "/v1/responses", "/v1/rerank", "/v1/score",
                           "/v1/audio/speech", "/tokenize"}) {
    SCOPED_TRACE(path);
    post(path, R"({"model":"alias","input":["a","b"]})");
    ASSERT_EQ(connects_.size(), 1U);
    connected();
    const std::string request = seen(Side::kEngine);
    EXPECT_TRUE(request.starts_with(std::string("POST ") + path + " HTTP/1.1\r\n"));
    EXPECT_EQ(body_of(request), R"({"model":"m","input":["a","b"]})");
    engine(whole(R"({"object":"list","data":[],"usage":{"prompt_tokens":8,"total_tokens":8}})"));
    EXPECT_TRUE(seen().starts_with("HTTP/1.1 200 "));
    EXPECT_EQ(records_.back().route, path);
    EXPECT_EQ(records_.back().prompt_tokens, 8);
  }
  post("/tokenize", R"({"prompt":"x"})");  // one model: it need not be named
  EXPECT_EQ(connects_.size(), 1U);
  for (const char* path : {"/v1/load_lora_adapter", "/sleep", "/metrics", "/abort_requests",
                           "/update_weights", "/v1/../sleep", "//sleep", "/invocations"}) {
    post(path, "{}");
    EXPECT_TRUE(connects_.empty()) << path;
    EXPECT_TRUE(seen().starts_with("HTTP/1.1 404 ")) << path;
  }
}

TEST_F(SessionTest, ResponsesStreamsHaveNoChoicesAndNoDone) {
  const std::string body = R"({"model":"m","stream":true,"input":"hi"})";
  caller("POST /v1/responses HTTP/1.1\r\nHost: g\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body);
  connected();
  const std::string event =
      "event: response.output_text.delta\ndata: "
      "{\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n";
  engine(kStreamHead + chunk(event));
  EXPECT_TRUE(seen().ends_with(chunk(event)));
  engine(chunk(event) + "0\r\n\r\n");

  EXPECT_EQ(seen(), chunk(event) + "0\r\n\r\n");
  EXPECT_EQ(records_.at(0).outcome, Outcome::kOk);
}

TEST_F(SessionTest, AnUploadPassesWhileItArrives) {
  const std::string start =
      "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nalias\r\n"
      "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n";
  const std::string file(3'000'000, 'w');  // far beyond the limit of bodies that are held
  const std::string end = "\r\n--b--\r\n";
  for (const bool chunked : {false, true}) {
    SCOPED_TRACE(chunked);
    session_ = std::make_unique<Session>(services_, now_);
    connects_.clear();
    const std::size_t size = start.size() + file.size() + end.size();
    caller(
        "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: g\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\n" +
        (chunked ? std::string("Transfer-Encoding: chunked\r\n\r\n")
                 : "Content-Length: " + std::to_string(size) + "\r\n\r\n"));
    const auto framed = [&](const std::string& piece) { return chunked ? chunk(piece) : piece; };
    caller(framed(start));
    caller(framed(file.substr(0, 100)));
    ASSERT_EQ(connects_.size(), 1U);  // long before the end
    connected();
    std::string sent;
    std::size_t most = 0;
    for (std::size_t at = 100; at < file.size(); at += 60'000) {
      caller(framed(file.substr(at, 60'000)));
      while (!session_->wants_input(Side::kCaller)) {
        most = std::max(most, session_->output(Side::kEngine).size());
        sent += seen(Side::kEngine);
        session_->feed(Side::kCaller, "", now_);
      }
    }
    caller(framed(end) + (chunked ? "0\r\n\r\n" : ""));
    sent += seen(Side::kEngine);
    session_->feed(Side::kCaller, "", now_);
    sent += seen(Side::kEngine);

    EXPECT_LE(most, Session::kOutputHigh + 100'000);
    std::string payload = body_of(sent);
    if (chunked) {
      BodyDecoder decoder({BodyFraming::Kind::kChunked});
      std::string decoded;
      while (!decoder.done()) {
        const auto piece = std::get<BodyDecoder::Piece>(decoder.decode(payload));
        decoded.append(piece.payload);
        payload.erase(0, piece.consumed);
      }
      payload = decoded;
    }
    EXPECT_EQ(payload.size(), size);
    EXPECT_EQ(payload, start + file + end);
    engine(whole(R"({"text":"hello"})"));
    EXPECT_NE(seen().find("hello"), std::string::npos);
    EXPECT_EQ(records_.back().outcome, Outcome::kOk);
  }
}

TEST_F(SessionTest, SaysInTheStreamThatTheEngineDiedAndNeverThatItStopped) {
  ask_stream();
  connected();
  engine(kStreamHead + chunk(kToken));
  seen();

  session_->closed(Side::kEngine, now_);
  take();

  const std::string end = seen();
  EXPECT_NE(end.find("\"error\""), std::string::npos);
  EXPECT_NE(end.find("data: [DONE]"), std::string::npos);
  EXPECT_TRUE(end.ends_with("0\r\n\r\n"));
  EXPECT_EQ(end.find("stop"), std::string::npos);
  EXPECT_EQ(records_.at(0).outcome, Outcome::kEngineCut);
  EXPECT_FALSE(releases_.at(0).reusable);
}

TEST_F(SessionTest, GivesACleanErrorForEveryWayAnEngineFailsBeforeItsReply) {
  alone();
  struct Case {
    const char* name;
    std::string bytes;
    int status;
  };
  for (const Case& c : std::vector<Case>{
           {"closes without a word", "", 502},
           {"closes in the head", "HTTP/1.1 200 OK\r\nConte", 502},
           {"closes in the body", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"x\"", 502},
           {"closes before the first event", kStreamHead, 502},
           {"speaks no HTTP", "SSH-2.0-OpenSSH\r\n\r\n", 502},
           {"breaks the chunks", std::string(kStreamHead) + "zz\r\n", 502},
       }) {
    SCOPED_TRACE(c.name);
    session_ = std::make_unique<Session>(services_, now_);
    now_ += seconds(100);
    ask_stream();
    connected();

    engine(c.bytes);
    session_->closed(Side::kEngine, now_);
    take();

    const std::string reply = seen();
    EXPECT_TRUE(reply.starts_with("HTTP/1.1 " + std::to_string(c.status))) << reply;
    EXPECT_TRUE(Json::parse(body_of(reply)).contains("error"));
    EXPECT_EQ(services_.pools.named("chat")->in_flight(), 0U);
  }
}

TEST_F(SessionTest, PassesTheEnginesOwnErrorsOn) {
  ask_whole();
  connected();

  engine(
      "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: "
      "31\r\n\r\n{\"error\":{\"message\":\"too long\"}}");

  const std::string reply = seen();
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 400 "));
  EXPECT_NE(reply.find("too long"), std::string::npos);
  EXPECT_EQ(records_.at(0).outcome, Outcome::kEngineError);
}

TEST_F(SessionTest, TriesAnotherReplicaWhenTheFirstRefusesTheConnection) {
  ask_stream();
  session_->connect_failed("refused", now_);
  take();

  ASSERT_EQ(connects_.size(), 2U);
  EXPECT_NE(connects_[0].replica, connects_[1].replica);
  session_->connect_failed("refused", now_);
  take();
  const std::string reply = seen();
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 503 "));
  EXPECT_NE(reply.find("retry-after: "), std::string::npos);
  EXPECT_EQ(records_.at(0).outcome, Outcome::kUnavailable);
}

TEST_F(SessionTest, TriesAFreshConnectionWhenAnIdleOneHadBeenClosed) {
  ask_stream();
  connected(true);
  seen(Side::kEngine);
  session_->closed(Side::kEngine, now_);
  take();

  ASSERT_EQ(connects_.size(), 2U);
  EXPECT_TRUE(connects_[1].fresh);
  EXPECT_EQ(seen(), "");
  connected(false);
  EXPECT_FALSE(seen(Side::kEngine).empty());
  engine(kStreamHead + chunk(kToken) + chunk(kStop) + chunk("data: [DONE]\n\n") + "0\r\n\r\n");
  EXPECT_EQ(records_.at(0).outcome, Outcome::kOk);
}

TEST_F(SessionTest, StopsTheEnginesWorkWhenTheCallerGoesInAnyPhase) {
  const std::vector<std::string> phases = {"", kStreamHead,
                                           std::string(kStreamHead) + chunk(kToken)};
  for (const std::string& so_far : phases) {
    SCOPED_TRACE(so_far);
    session_ = std::make_unique<Session>(services_, now_);
    records_.clear();
    releases_.clear();
    ask_stream();
    connected();
    engine(so_far);

    session_->closed(Side::kCaller, now_);
    take();

    ASSERT_EQ(releases_.size(), 1U);
    EXPECT_FALSE(releases_[0].reusable);
    ASSERT_EQ(records_.size(), 1U);
    EXPECT_EQ(records_[0].outcome, Outcome::kCallerGone);
    EXPECT_EQ(services_.pools.named("chat")->in_flight(), 0U);
  }
}

TEST_F(SessionTest, HasADeadlineInEveryPhase) {
  const Limits& limits = services_.snapshot->config.limits;
  EXPECT_EQ(session_->deadline(), now_ + limits.idle_timeout);
  ask(R"({"model":"m","stream":true,"messages":[{"role":"user"}]})", "x-spillway-class: high\r\n");
  EXPECT_EQ(session_->deadline(), now_ + limits.connect_timeout);
  connected();
  EXPECT_EQ(session_->deadline(), now_ + seconds(5));  // the class's, from arrival
  now_ += seconds(4);
  engine(kStreamHead + chunk(kToken));
  Instant content = now_;
  // A stream that keeps producing tokens is never cut by it.
  for (int i = 0; i < 100; ++i) {
    now_ += seconds(2);
    content = now_;
    engine(chunk(kToken));
    EXPECT_EQ(session_->deadline(), now_ + limits.keepalive_interval);
  }
  seen();
  // Comments, the engine's or ours, are no tokens.
  while (records_.empty() && now_ < content + 2 * limits.between_tokens_timeout) {
    now_ += seconds(5);
    engine(chunk(": ping\n\n"));
    session_->wake(now_);
    take();
  }

  EXPECT_EQ(now_, content + limits.between_tokens_timeout);
  EXPECT_NE(seen().find("timeout"), std::string::npos);
  EXPECT_EQ(records_.at(0).outcome, Outcome::kTimeout);
}

TEST_F(SessionTest, AReplyInOnePieceHasItsOwnTotal) {
  ask_whole();
  connected();

  EXPECT_EQ(session_->deadline(), now_ + services_.snapshot->config.limits.request_timeout);
}

TEST_F(SessionTest, AMissedFirstTokenIsNotSentAgain) {
  ask_stream();
  connected();
  now_ += seconds(20);
  session_->wake(now_);
  take();

  EXPECT_EQ(connects_.size(), 1U);
  EXPECT_TRUE(seen().starts_with("HTTP/1.1 504 "));
}

TEST_F(SessionTest, WakingEarlyDoesNothing) {
  ask_stream();
  session_->wake(now_ + milliseconds(1));
  take();

  EXPECT_TRUE(records_.empty());
}

TEST_F(SessionTest, StopsReadingTheEngineWhileTheCallerIsSlow) {
  ask_stream();
  connected();
  engine(kStreamHead + chunk(kToken));
  EXPECT_TRUE(session_->wants_input(Side::kEngine));
  std::string big(Session::kOutputHigh, 'x');
  engine(chunk("data: {\"choices\":[{\"delta\":{\"content\":\"" + big + "\"}}]}\n\n"));

  EXPECT_FALSE(session_->wants_input(Side::kEngine));
  seen();
  EXPECT_TRUE(session_->wants_input(Side::kEngine));
}

TEST_F(SessionTest, SpeaksHttp10) {
  const std::string body =
      R"({"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]})";
  caller("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body);
  connected();
  engine(kStreamHead + chunk(kToken) + chunk(kStop) + chunk("data: [DONE]\n\n") + "0\r\n\r\n");

  const std::string reply = seen();
  EXPECT_EQ(reply.find("transfer-encoding"), std::string::npos);
  EXPECT_TRUE(reply.ends_with(std::string(kStop) + "data: [DONE]\n\n"));
  EXPECT_TRUE(caller_closed_);
}

TEST_F(SessionTest, EndsTheConnectionWhenItIsDrained) {
  ask_stream();
  session_->drain(now_);
  take();
  EXPECT_FALSE(caller_closed_);
  connected();
  engine(kStreamHead + chunk(kToken) + chunk(kStop) + chunk("data: [DONE]\n\n") + "0\r\n\r\n");

  EXPECT_TRUE(caller_closed_);
  EXPECT_EQ(records_.at(0).outcome, Outcome::kOk);
}

TEST_F(SessionTest, NeverPassesAKeyOfOursToTheEngine) {
  Snapshot snapshot = *services_.snapshot;
  snapshot.config.tenants = {{"core", {"secret"}}};
  services_.snapshot = std::make_shared<const Snapshot>(std::move(snapshot));

  ask(R"({"model":"m","messages":[{"role":"user"}]})",
      "Authorization: Bearer secret\r\nX-Other: 1\r\n");
  connected();

  const std::string request = seen(Side::kEngine);
  EXPECT_EQ(request.find("secret"), std::string::npos);
  EXPECT_NE(request.find("X-Other: 1\r\n"), std::string::npos);
  ASSERT_TRUE(records_.empty());
}

}  // namespace
}  // namespace spillway
