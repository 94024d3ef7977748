#include "net/turn_end.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(TurnEnd, RunsOnceBehindWhatIsReadyHoweverOftenItWasAskedFor) {
  boost::asio::io_context io;
  std::string order;
  TurnEnd turn_end(io, [&] { order += "end "; });
  boost::asio::post(io, [&] {
    turn_end.ask();
    order += "first ";
  });
  boost::asio::post(io, [&] {
    turn_end.ask();
    order += "second ";
  });

  io.run();

  EXPECT_EQ(order, "first second end ");
}

TEST(TurnEnd, MayBeAskedForAgainInItsCallback) {
  boost::asio::io_context io;
  int runs = 0;
  std::optional<TurnEnd> turn_end;
  turn_end.emplace(io, [&] {
    if (++runs < 3) {
      turn_end->ask();
    }
  });
  turn_end->ask();

  io.run();

  EXPECT_EQ(runs, 3);
}

TEST(TurnEnd, DoesNotRunAfterItsEnd) {
  boost::asio::io_context io;
  bool ran = false;
  {
    TurnEnd turn_end(io, [&] { ran = true; });
    turn_end.ask();
  }

  io.run();

  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace spillway
