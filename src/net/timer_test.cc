#include "net/timer.h"

#include <memory>
#include <thread>

#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::milliseconds;

// Runs what is due, so that the handlers of both timers wait in one queue; the first one's callback
// then ends the second.
template <class End>
int runs_of_the_second(End end) {
  boost::asio::io_context io;
  int runs = 0;
  auto second = std::make_unique<Timer>(io);
  Timer first(io);
  first.after(milliseconds(1), [&] { end(second); });
  second->after(milliseconds(1), [&] { ++runs; });
  std::this_thread::sleep_for(milliseconds(20));  // both have ended before anything runs
  io.run();
  return runs;
}

TEST(Timer, NeverRunsAfterItsEndOrACancelEvenWhenItWasDue) {
  EXPECT_EQ(runs_of_the_second([](std::unique_ptr<Timer>&) {}), 1);
  EXPECT_EQ(runs_of_the_second([](std::unique_ptr<Timer>& t) { t.reset(); }), 0);
  EXPECT_EQ(runs_of_the_second([](std::unique_ptr<Timer>& t) { t->cancel(); }), 0);
}

TEST(Timer, ANewTimeReplacesTheOldOne) {
  boost::asio::io_context io;
  int first = 0;
  int second = 0;
  Timer timer(io);
  timer.after(milliseconds(1), [&] { ++first; });
  timer.after(milliseconds(2), [&] { ++second; });
  io.run();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
}

}  // namespace
}  // namespace spillway
