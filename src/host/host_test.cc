#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/child_process.h"
#include "host/file_watch.h"
#include "host/listening_sockets.h"
#include "host/scraper.h"
#include "net/http_server.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

template <class Condition>
void run_until(boost::asio::io_context& io, Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + seconds(10);
  while (!condition() && std::chrono::steady_clock::now() < deadline) {
    io.run_one_for(milliseconds(20));
    io.restart();
  }
  ASSERT_TRUE(condition());
}

TEST(Scraper, HandsPagesAndFailuresOn) {
  boost::asio::io_context io;
  int status = 200;
  auto server = HttpServer::open(io, {}, [&](HttpRequest, std::shared_ptr<HttpExchange> exchange) {
    exchange->respond(status, "text/plain", "vllm:num_requests_running 3\n");
  });
  ASSERT_TRUE(server.ok());
  std::vector<Result<EngineFacts>> seen;
  Scraper scraper(
      io, "127.0.0.1:" + std::to_string((*server)->port()), milliseconds(10),
      [&](const std::string&, Result<EngineFacts> facts) { seen.push_back(std::move(facts)); });

  run_until(io, [&] { return seen.size() >= 2; });
  ASSERT_TRUE(seen[0].ok());
  EXPECT_DOUBLE_EQ(*seen[0]->running, 3);
  status = 500;
  run_until(io, [&] { return !seen.back().ok(); });
  EXPECT_EQ(seen.back().error().message, "/metrics answered 500");
  (*server)->stop();
  const std::size_t before = seen.size();
  run_until(io, [&] { return seen.size() > before + 1; });
  EXPECT_NE(seen.back().error().message.find("connect"), std::string::npos);
}

class FileWatchTest : public testing::Test {
 protected:
  FileWatchTest()
      : path_(std::filesystem::temp_directory_path() /
              ("spillway_watch_" + std::to_string(::getpid()))) {
    write("one");
  }
  ~FileWatchTest() override { std::filesystem::remove(path_); }
  void write(const std::string& text) { std::ofstream(path_) << text; }

  boost::asio::io_context io_;
  std::filesystem::path path_;
};

TEST_F(FileWatchTest, SeesChangesRenamesAndRemovalAndNothingElse) {
  int changes = 0;
  FileWatch watch(io_, {path_}, milliseconds(5), [&] { ++changes; });
  write("one");  // touched, the same content
  io_.run_for(milliseconds(40));
  EXPECT_EQ(changes, 0);

  write("two");
  run_until(io_, [&] { return changes >= 1; });
  const std::string other = path_.string() + ".new";
  std::ofstream(other) << "three";
  std::filesystem::rename(other, path_);
  const int before = changes;
  run_until(io_, [&] { return changes > before; });
  std::filesystem::remove(path_);
  const int after = changes;
  run_until(io_, [&] { return changes > after; });
}

TEST(ChildProcess, IsStoppedWithItsOwner) {
  pid_t pid = 0;
  {
    auto child = ChildProcess::start({"sleep", "1000"}, {});
    ASSERT_TRUE(child.ok());
    pid = child->pid();
    EXPECT_FALSE(child->ended());
  }

  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST(ChildProcess, TellsHowAProgramEnded) {
  auto three = ChildProcess::start({"sh", "-c", "exit 3"}, {});
  auto killed = ChildProcess::start({"sh", "-c", "kill -9 $$"}, {});
  ASSERT_TRUE(three.ok() && killed.ok());
  while (!three->ended() || !killed->ended()) {
    std::this_thread::yield();
  }

  EXPECT_EQ(three->exit_code(), 3);
  EXPECT_EQ(killed->exit_code(), 128 + SIGKILL);
}

TEST(ChildProcess, HandsListeningSocketsOver) {
  const auto a = open_listening_socket("127.0.0.1", 0);
  const auto b = open_listening_socket("127.0.0.1", 0);
  ASSERT_TRUE(a.ok() && b.ok());
  auto child = ChildProcess::start(
      {"sh", "-c",
       "test \"$LISTEN_PID\" = $$ && test \"$LISTEN_FDS $LISTEN_FDNAMES\" = '2 callers:operators' "
       "&& "
       "test -S /proc/self/fd/3 && test -S /proc/self/fd/4 && ! test -e /proc/self/fd/5"},
      {.sockets = {{"operators", *b}, {"callers", *a}}});
  ASSERT_TRUE(child.ok());
  while (!child->ended()) {
    std::this_thread::yield();
  }
  ::close(*a);
  ::close(*b);

  EXPECT_EQ(child->exit_code(), 0);
}

TEST(ListeningSockets, SaysWhenAPortIsTakenOrTheAddressIsNone) {
  const auto first = open_listening_socket("127.0.0.1", 0);
  ASSERT_TRUE(first.ok());
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  ASSERT_EQ(::getsockname(*first, reinterpret_cast<sockaddr*>(&address), &size), 0);

  const auto second = open_listening_socket("127.0.0.1", ntohs(address.sin_port));
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("in use"), std::string::npos);
  EXPECT_FALSE(open_listening_socket("nowhere.example", 0).ok());
  ::close(*first);
}

TEST(ChildProcess, SaysThatAProgramIsNotThere) {
  const auto child = ChildProcess::start({"/nowhere/program"}, {});

  ASSERT_FALSE(child.ok());
  EXPECT_NE(child.error().message.find("/nowhere/program: No such file"), std::string::npos);
}

TEST(PortHolder, NamesTheProcessThatListens) {
  boost::asio::io_context io;
  const auto listener = Listener::open(io, "127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());

  EXPECT_EQ(port_holder((*listener)->port()), "host_test (pid " + std::to_string(::getpid()) + ")");
}

}  // namespace
}  // namespace spillway
