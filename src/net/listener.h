#pragma once
// A listening socket. Owned by the thread that runs its io_context.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/result.h"
#include "net/tcp_stream.h"

namespace spillway {

class Listener {
 public:
  // Binds and listens; port 0 lets the system choose. A taken port is an error that says so.
  static Result<std::unique_ptr<Listener>> open(boost::asio::io_context& io,
                                                const std::string& host, std::uint16_t port);

  // Takes over a socket that listens already: one that the process was started with.
  static Result<std::unique_ptr<Listener>> adopt(boost::asio::io_context& io, int socket);

  explicit Listener(boost::asio::io_context& io) : acceptor_(io), pause_(io) {}

  // Calls for each connection until stop(). Out of descriptors, it pauses for a moment and goes on.
  void start(std::function<void(std::unique_ptr<TcpStream>)> accepted);
  void stop();
  std::uint16_t port() const;

 private:
  void accept();

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  std::function<void(std::unique_ptr<TcpStream>)> accepted_;
};

}  // namespace spillway
