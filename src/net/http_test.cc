// The small server and client against each other on loopback.
#include <deque>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "net/http_client.h"
#include "net/http_server.h"

namespace spillway {
namespace {

class HttpTest : public testing::Test {
 protected:
  void SetUp() override {
    auto server =
        HttpServer::open(io_, {.body_bytes_max = 1000},
                         [this](HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
                           requests_.push_back(request);
                           if (request.path == "/echo") {
                             exchange->respond(200, "text/plain",
                                               request.method + " " + request.body +
                                                   std::string(request.field("x-a")));
                           } else if (request.path == "/wait") {
                             exchange->when_gone([this] { gone_ = true; });
                             waiting_ = exchange;
                           } else {
                             exchange->respond(404, "text/plain", "no");
                           }
                         });
    ASSERT_TRUE(server.ok());
    server_ = *std::move(server);
  }

  template <class Condition>
  void run_until(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition() && std::chrono::steady_clock::now() < deadline) {
      io_.run_one_for(std::chrono::milliseconds(50));
      io_.restart();
    }
    ASSERT_TRUE(condition());
  }

  HttpCall call(std::string path) {
    return {.address = "127.0.0.1:" + std::to_string(server_->port()), .path = std::move(path)};
  }

  Result<HttpReply> get(HttpCall wanted, std::size_t bytes_max = 100000) {
    std::optional<Result<HttpReply>> reply;
    fetch(io_, std::move(wanted), bytes_max,
          [&](Result<HttpReply> got) { reply = std::move(got); });
    run_until([&] { return reply.has_value(); });
    return *reply;
  }

  boost::asio::io_context io_;
  std::unique_ptr<HttpServer> server_;
  std::deque<HttpRequest> requests_;
  std::shared_ptr<HttpExchange> waiting_;
  bool gone_ = false;
};

TEST_F(HttpTest, AnswersARequest) {
  HttpCall wanted = call("/echo?x=1");
  wanted.method = "POST";
  wanted.body = "hello ";
  wanted.fields = {{"X-A", "field"}};

  const auto reply = get(wanted);

  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, "POST hello field");
  EXPECT_EQ(get(call("/no"))->status, 404);
}

TEST_F(HttpTest, StreamsPieceByPiece) {
  std::string got;
  std::optional<Status> end;
  HttpCallEvents events;
  events.piece = [&](std::string_view piece) { got.append(piece); };
  events.end = [&](Status status) { end = std::move(status); };
  const HttpCallPtr running = start_call(io_, call("/wait"), std::move(events));
  run_until([&] { return waiting_ != nullptr; });

  waiting_->begin(200, "text/event-stream");
  waiting_->write("one");
  run_until([&] { return got == "one"; });
  waiting_->write("two");
  waiting_->finish();
  run_until([&] { return end.has_value(); });

  EXPECT_EQ(got, "onetwo");
  EXPECT_TRUE(end->ok());
}

TEST_F(HttpTest, TellsTheHandlerThatTheCallerHasGone) {
  const HttpCallPtr running = start_call(io_, call("/wait"), {});
  run_until([&] { return waiting_ != nullptr; });

  drop_call(running);

  run_until([&] { return gone_; });
  waiting_->respond(200, "text/plain", "late");  // does nothing
}

TEST_F(HttpTest, GivesUpInTime) {
  HttpCall slow = call("/wait");
  slow.timeout = std::chrono::milliseconds(30);

  const auto reply = get(slow);

  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code, ErrorCode::kTimeout);
}

TEST_F(HttpTest, SaysThatAReplyWasCut) {
  std::optional<Status> end;
  const HttpCallPtr running =
      start_call(io_, call("/wait"), {.end = [&](Status status) { end = std::move(status); }});
  run_until([&] { return waiting_ != nullptr; });
  waiting_->begin(200, "text/plain");
  waiting_->write("half");

  waiting_->cut();

  run_until([&] { return end.has_value(); });
  EXPECT_FALSE(end->ok());
}

TEST_F(HttpTest, BoundsBodiesOnBothSides) {
  HttpCall large = call("/echo");
  large.method = "POST";
  large.body = std::string(2000, 'x');
  EXPECT_EQ(get(large)->status, 413);

  HttpCall small = call("/echo");
  small.method = "POST";
  small.body = std::string(900, 'x');
  EXPECT_EQ(get(small, 100).error().code, ErrorCode::kTooLarge);
}

TEST_F(HttpTest, StopsWhileRequestsWait) {
  std::optional<Status> end;
  const HttpCallPtr running =
      start_call(io_, call("/wait"), {.end = [&](Status status) { end = std::move(status); }});
  run_until([&] { return waiting_ != nullptr; });

  server_->stop();

  run_until([&] { return end.has_value(); });
  EXPECT_FALSE(end->ok());
  EXPECT_TRUE(gone_);
}

TEST(ParseHttpUrl, ReadsAddressesAndRefusesTheRest) {
  EXPECT_EQ(parse_http_url("http://a:1/v1/traces")->path, "/v1/traces");
  EXPECT_EQ(parse_http_url("http://a")->address, "a:80");
  EXPECT_EQ(parse_http_url("http://[::1]:8")->address, "[::1]:8");
  EXPECT_FALSE(parse_http_url("https://a/").ok());
  EXPECT_FALSE(parse_http_url("a:1").ok());
}

}  // namespace
}  // namespace spillway
