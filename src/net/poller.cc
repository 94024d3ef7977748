#include "net/poller.h"

#include <array>
#include <iterator>
#include <utility>

#include <boost/asio/post.hpp>
#include <sys/epoll.h>
#include <unistd.h>

namespace spillway {

namespace asio = boost::asio;

Poller::Poller(asio::execution_context& context)
    : service(context),
      io_(static_cast<asio::io_context&>(context)),
      epoll_(io_, ::epoll_create1(EPOLL_CLOEXEC)) {}

Poller& Poller::of(asio::execution_context& context) {
  return asio::use_service<Poller>(context);
}

// The io_context ends. What a callback owns may own streams in turn, which are closed here.
void Poller::shutdown() {
  shut_ = true;
  boost::system::error_code ignored;
  epoll_.close(ignored);
  std::vector<Callback> dropped;
  for (Watch& watch : watches_) {
    dropped.push_back(take(watch.on_read));
    dropped.push_back(take(watch.on_write));
  }
}

Poller::Handle Poller::add(int fd) {
  const Handle watch = watches_.insert(watches_.end(), Watch{.fd = fd});
  epoll_event wanted{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.ptr = &*watch}};
  if (::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_ADD, fd, &wanted) != 0) {
    // The kernel has no memory for it: to its owner it is a connection that has just failed.
    ::close(std::exchange(watch->fd, -1));
    watch->readable = watch->ended = true;
  }
  return watch;
}

void Poller::close(Handle watch) {
  if (watch->fd >= 0) {
    ::close(std::exchange(watch->fd, -1));
  }
  closed_.splice(closed_.end(), watches_, watch);
  const Callback on_read = take(watch->on_read);
  const Callback on_write = take(watch->on_write);
  disarm();
  sweep();
}

void Poller::when_readable(Handle watch, Callback callback) {
  set(watch->on_read, std::move(callback));
  if (watch->readable) {
    queue(*watch);
  }
}

void Poller::when_writable(Handle watch, Callback callback) {
  set(watch->on_write, std::move(callback));
  if (watch->writable) {
    queue(*watch);
  }
}

void Poller::forget(Handle watch) {
  const Callback on_read = take(watch->on_read);
  const Callback on_write = take(watch->on_write);
  disarm();
}

void Poller::set(Callback& slot, Callback callback) {
  callbacks_ += slot ? 0 : 1;
  slot = std::move(callback);
  arm();
}

Poller::Callback Poller::take(Callback& slot) {
  callbacks_ -= slot ? 1 : 0;
  return std::exchange(slot, nullptr);
}

void Poller::queue(Watch& watch) {
  if (shut_ || std::exchange(watch.queued, true)) {
    return;
  }
  ready_.push_back(&watch);
  if (ready_.size() == 1) {
    asio::post(io_, [this] { run_ready(); });
  }
}

void Poller::arm() {
  if (callbacks_ == 0 || dispatching_ || shut_ || std::exchange(armed_, true)) {
    return;
  }
  epoll_.async_wait(asio::posix::stream_descriptor::wait_read,
                    [this](boost::system::error_code stopped) {
                      armed_ = false;
                      if (!stopped) {
                        dispatch();
                      }
                      arm();
                    });
}

// So that io_context::run() returns when nobody waits for anything.
void Poller::disarm() {
  if (callbacks_ == 0 && armed_ && !shut_) {
    boost::system::error_code ignored;
    epoll_.cancel(ignored);
  }
}

void Poller::dispatch() {
  std::array<epoll_event, 256> events;  // NOLINT: filled by the call
  const int n = ::epoll_wait(epoll_.native_handle(), events.data(), events.size(), 0);
  dispatching_ = true;
  for (int i = 0; i < n; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    auto& watch = *static_cast<Watch*>(event.data.ptr);
    const bool failed = (event.events & (EPOLLHUP | EPOLLERR)) != 0;
    watch.ended = watch.ended || failed || (event.events & EPOLLRDHUP) != 0;
    watch.readable = watch.readable || watch.ended || (event.events & EPOLLIN) != 0;
    watch.writable = watch.writable || failed || (event.events & EPOLLOUT) != 0;
    call(watch);
  }
  dispatching_ = false;
  sweep();
}

void Poller::run_ready() {
  const std::vector<Watch*> ready = std::exchange(ready_, {});
  dispatching_ = true;
  for (Watch* watch : ready) {
    watch->queued = false;
    call(*watch);
  }
  dispatching_ = false;
  sweep();
  arm();
}

void Poller::call(Watch& watch) {
  if (watch.readable && watch.on_read) {
    take(watch.on_read)();
  }
  if (watch.writable && watch.on_write) {
    take(watch.on_write)();
  }
}

void Poller::sweep() {
  if (!dispatching_ && ready_.empty()) {
    closed_.clear();
  }
}

}  // namespace spillway
