#pragma once
// Runs a callback once behind everything that the present turn of the loop has found ready, however
// often it was asked for; never after its end. Owned by the thread that runs its io_context.

#include <functional>
#include <memory>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

namespace spillway {

class TurnEnd {
 public:
  TurnEnd(boost::asio::io_context& io, std::function<void()> callback)
      : io_(io), shared_(std::make_shared<Shared>(std::move(callback))) {}
  ~TurnEnd() { shared_->callback = nullptr; }
  TurnEnd(const TurnEnd&) = delete;
  TurnEnd& operator=(const TurnEnd&) = delete;

  void ask() {
    if (std::exchange(shared_->asked, true)) {
      return;
    }
    boost::asio::post(io_, [shared = shared_] {
      shared->asked = false;
      if (const auto callback = shared->callback) {  // a copy: it may end its owner
        callback();
      }
    });
  }

 private:
  struct Shared {
    explicit Shared(std::function<void()> run) : callback(std::move(run)) {}
    std::function<void()> callback;
    bool asked = false;
  };

  boost::asio::io_context& io_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace spillway
