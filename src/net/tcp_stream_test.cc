#include "net/tcp_stream.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

#include "net/listener.h"

namespace spillway {
namespace {

// A connected pair on loopback.
class TcpStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    auto listener = Listener::open(io_, "127.0.0.1", 0);
    ASSERT_TRUE(listener.ok());
    listener_ = *std::move(listener);
    listener_->start([this](std::unique_ptr<TcpStream> stream) { server_ = std::move(stream); });
    TcpStream::connect(io_, "127.0.0.1:" + std::to_string(listener_->port()),
                       [this](Result<std::unique_ptr<TcpStream>> made) {
                         ASSERT_TRUE(made.ok());
                         client_ = *std::move(made);
                       });
    run_until([this] { return client_ && server_; });
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

  boost::asio::io_context io_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<TcpStream> client_;
  std::unique_ptr<TcpStream> server_;
};

TEST_F(TcpStreamTest, CarriesBytes) {
  bool readable = false;
  std::array<char, 16> buffer{};
  EXPECT_EQ(server_->receive(buffer).state, TcpStream::State::kWouldBlock);
  server_->when_readable([&] { readable = true; });
  EXPECT_EQ(client_->send("hello").bytes, 5U);

  run_until([&] { return readable; });

  EXPECT_EQ(server_->receive(buffer).bytes, 5U);
  EXPECT_EQ(std::string(buffer.data(), 5), "hello");
}

TEST_F(TcpStreamTest, SaysWhenTheOtherEndIsSlow) {
  const std::string block(1 << 20, 'x');
  TcpStream::Transfer put;
  for (int i = 0; i < 100 && put.state == TcpStream::State::kOk; ++i) {
    put = client_->send(block);
  }
  EXPECT_EQ(put.state, TcpStream::State::kWouldBlock);

  bool writable = false;
  client_->when_writable([&] { writable = true; });
  std::string sink(1 << 20, 0);
  run_until([&] {
    server_->receive(sink);
    return writable;
  });
}

TEST_F(TcpStreamTest, NoticesThatTheOtherEndHasGone) {
  bool readable = false;
  server_->when_readable([&] { readable = true; });
  client_->abort();

  run_until([&] { return readable; });

  std::array<char, 16> buffer{};
  EXPECT_EQ(server_->receive(buffer).state, TcpStream::State::kClosed);
}

TEST_F(TcpStreamTest, RunsNoCallbackAfterItWasClosed) {
  bool called = false;
  server_->when_readable([&] { called = true; });
  server_->close();
  EXPECT_GT(client_->send("x").bytes, 0U);

  io_.run_for(std::chrono::milliseconds(20));

  EXPECT_FALSE(called);
}

TEST_F(TcpStreamTest, SaysWhyAConnectionWasNotMade) {
  const std::string address = "127.0.0.1:" + std::to_string(listener_->port());
  listener_->stop();
  std::optional<Result<std::unique_ptr<TcpStream>>> outcome;
  TcpStream::connect(io_, address,
                     [&](Result<std::unique_ptr<TcpStream>> made) { outcome = std::move(made); });

  run_until([&] { return outcome.has_value(); });

  EXPECT_FALSE(outcome->ok());
}

TEST(Listener, SaysThatAPortIsTaken) {
  boost::asio::io_context io;
  const auto first = Listener::open(io, "127.0.0.1", 0);
  ASSERT_TRUE(first.ok());

  const auto second = Listener::open(io, "127.0.0.1", (*first)->port());

  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("Address already in use"), std::string::npos);
}

}  // namespace
}  // namespace spillway
