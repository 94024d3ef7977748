#include "net/tcp_stream.h"

#include <array>
#include <functional>
#include <memory>
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

TEST_F(TcpStreamTest, GoesOnWhereASmallBufferStopped) {
  std::string got;
  std::function<void()> read = [&] {
    std::array<char, 4> buffer{};
    const auto taken = server_->receive(buffer);
    got.append(buffer.data(), taken.bytes);
    server_->when_readable(read);
  };
  server_->when_readable(read);
  EXPECT_EQ(client_->send("eleven byte").bytes, 11U);

  run_until([&] { return got.size() == 11; });

  EXPECT_EQ(client_->send("more").bytes, 4U);
  run_until([&] { return got == "eleven bytemore"; });
}

TEST_F(TcpStreamTest, HearsTheEndThatCameWithTheLastBytes) {
  EXPECT_EQ(client_->send("last").bytes, 4U);
  client_->close();
  std::array<char, 16> buffer{};
  bool ended = false;
  std::function<void()> read = [&] {
    ended = server_->receive(buffer).state == TcpStream::State::kClosed;
    if (!ended) {
      server_->when_readable(read);
    }
  };
  server_->when_readable(read);

  run_until([&] { return ended; });
}

TEST_F(TcpStreamTest, HearsWhatCameWhileNobodyWaited) {
  std::array<char, 16> buffer{};
  EXPECT_EQ(server_->receive(buffer).state, TcpStream::State::kWouldBlock);
  client_->when_readable([] {});  // something to wait for, so that the loop turns
  EXPECT_EQ(client_->send("early").bytes, 5U);
  io_.run_for(std::chrono::milliseconds(20));
  bool readable = false;

  server_->when_readable([&] { readable = true; });
  EXPECT_FALSE(readable);  // never inside the call

  run_until([&] { return readable; });
  EXPECT_EQ(server_->receive(buffer).bytes, 5U);
}

TEST_F(TcpStreamTest, IsNoWorkForTheLoopOnceNobodyWaits) {
  listener_->stop();
  server_->when_readable([] {});
  server_->forget();

  io_.restart();
  io_.run();  // returns
}

TEST(TcpStream, MayBeOwnedByItsOwnCallbackWhenTheLoopEnds) {
  std::weak_ptr<TcpStream> watched;
  {
    boost::asio::io_context io;
    auto listener = Listener::open(io, "127.0.0.1", 0);
    ASSERT_TRUE(listener.ok());
    TcpStream::connect(io, "127.0.0.1:" + std::to_string((*listener)->port()),
                       [&](Result<std::unique_ptr<TcpStream>> made) {
                         ASSERT_TRUE(made.ok());
                         std::shared_ptr<TcpStream> stream = *std::move(made);
                         watched = stream;
                         stream->when_readable([stream] {});
                       });
    io.run_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

// One turn finds both readable, and the first to be called closes the other.
TEST_F(TcpStreamTest, RunsNoCallbackOfAStreamThatTheSameTurnHasClosed) {
  int called = 0;
  EXPECT_EQ(client_->send("a").bytes, 1U);
  EXPECT_EQ(server_->send("b").bytes, 1U);
  client_->when_readable([&] {
    ++called;
    server_.reset();
  });
  server_->when_readable([&] {
    ++called;
    client_.reset();
  });

  run_until([&] { return called > 0; });
  io_.run_for(std::chrono::milliseconds(20));

  EXPECT_EQ(called, 1);
}

TEST_F(TcpStreamTest, MayBeOwnedByTheCallbackThatItDropsWhenItCloses) {
  std::shared_ptr<TcpStream> stream = std::move(server_);
  TcpStream* bare = stream.get();
  const std::weak_ptr<TcpStream> watched = stream;
  bare->when_readable([stream = std::move(stream)] {});

  bare->close();

  EXPECT_TRUE(watched.expired());
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
