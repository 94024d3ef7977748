#pragma once
// A timer whose callback never runs after cancel(), after a new time was set, or after the timer's
// end. (Asio's own may: a wait that has ended already, and whose handler waits for its turn, cannot
// be cancelled any more.) Owned by the thread that runs its io_context.

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/time.h"

namespace spillway {

class Timer {
 public:
  explicit Timer(boost::asio::io_context& io) : timer_(io) {}
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Runs the callback once, after this time; what was set before is forgotten.
  void after(Duration wait, std::function<void()> callback) {
    const std::uint64_t set = ++*times_set_;
    timer_.expires_after(wait);
    timer_.async_wait([times_set = times_set_, set,
                       callback = std::move(callback)](boost::system::error_code stopped) {
      if (!stopped && *times_set == set) {
        callback();
      }
    });
  }

  void cancel() {
    ++*times_set_;
    timer_.cancel();
  }

 private:
  boost::asio::steady_timer timer_;
  std::shared_ptr<std::uint64_t> times_set_ = std::make_shared<std::uint64_t>(0);
};

}  // namespace spillway
