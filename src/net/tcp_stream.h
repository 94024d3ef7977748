#pragma once
// A TCP connection by readiness: ask to be told when it can be read or written, then receive or
// send without blocking. No buffer is owned while it is idle. Owned by the thread that runs its
// io_context; callbacks run there and never inside the call that asked for them.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/result.h"
#include "net/poller.h"

namespace spillway {

class TcpStream {
 public:
  enum class State {
    kOk,
    kWouldBlock,
    kClosed
  };  // kClosed: end of stream, or the connection is broken

  struct Transfer {
    State state = State::kOk;
    std::size_t bytes = 0;
  };

  explicit TcpStream(boost::asio::ip::tcp::socket socket);
  ~TcpStream() { close(); }
  TcpStream(const TcpStream&) = delete;
  TcpStream& operator=(const TcpStream&) = delete;

  // Connects to host:port; names are resolved. The callback gets the stream or a reason.
  static void connect(boost::asio::io_context& io, const std::string& address,
                      std::function<void(Result<std::unique_ptr<TcpStream>>)> done);

  Transfer receive(std::span<char> buffer);
  Transfer send(std::string_view bytes);

  // One shot. At most one of each kind is outstanding; asking again replaces the callback. Neither
  // costs a system call.
  void when_readable(std::function<void()> callback);
  void when_writable(std::function<void()> callback);

  // Outstanding callbacks do not run any more after these, and are destroyed in them.
  void forget();  // the connection stays open for its next user
  void close();
  void finish_sending();  // the other end sees the end of the stream; reading goes on
  void abort();           // resets, so that the other end cannot take what it has for the whole

  std::string peer() const;

 private:
  Poller& poller_;
  std::optional<Poller::Handle> watch_;  // nothing once it is closed
};

}  // namespace spillway
