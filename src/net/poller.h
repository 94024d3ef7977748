#pragma once
// Readiness of many sockets for one io_context, cheaper than Asio's own waits: a socket is told to
// the kernel once, edge-triggered (epoll(7)), where async_wait() costs an epoll_ctl each time. The
// poller's epoll is itself waited for by the io_context, so timers, posts, acceptors and connects
// go on as they are. For TcpStream only. Owned by the io_context; all on the thread that runs it.

#include <functional>
#include <list>
#include <vector>

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

namespace spillway {

class Poller : public boost::asio::execution_context::service {
 public:
  using Callback = std::function<void()>;

  // One socket. `readable` and `writable` hold until a transfer finds that they do not.
  struct Watch {
    int fd = -1;
    bool readable = false;
    bool writable = true;
    bool ended = false;   // the other end has finished or failed: readable from now on
    bool queued = false;  // in ready_
    Callback on_read;
    Callback on_write;
  };
  using Handle = std::list<Watch>::iterator;

  static inline boost::asio::execution_context::id id;
  static Poller& of(boost::asio::execution_context& context);
  explicit Poller(boost::asio::execution_context& context);

  // Takes the descriptor, which does not block.
  Handle add(int fd);
  // Closes the descriptor. The callbacks go within the call, and what they own with them.
  void close(Handle watch);

  // One shot, and never inside the call. The callback replaces the one before.
  void when_readable(Handle watch, Callback callback);
  void when_writable(Handle watch, Callback callback);
  void forget(Handle watch);

 private:
  void shutdown() override;
  void set(Callback& slot, Callback callback);
  Callback take(Callback& slot);
  void queue(Watch& watch);
  void arm();
  void disarm();
  void dispatch();
  void run_ready();
  void call(Watch& watch);
  void sweep();

  boost::asio::io_context& io_;
  boost::asio::posix::stream_descriptor epoll_;
  bool armed_ = false;        // the io_context waits for the epoll
  bool dispatching_ = false;  // an event that is still to be looked at may name a closed watch
  bool shut_ = false;
  std::size_t callbacks_ = 0;  // while there are any, the io_context has work
  std::list<Watch> watches_;
  std::list<Watch> closed_;
  std::vector<Watch*> ready_;  // to be called without an event
};

}  // namespace spillway
