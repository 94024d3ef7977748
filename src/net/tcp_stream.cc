#include "net/tcp_stream.h"

#include <cerrno>
#include <utility>

#include <boost/asio/connect.hpp>
#include <sys/socket.h>

namespace spillway {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

TcpStream::Transfer transfer_of(ssize_t n) {
  if (n > 0) {
    return {TcpStream::State::kOk, static_cast<std::size_t>(n)};
  }
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    return {TcpStream::State::kWouldBlock, 0};
  }
  return {TcpStream::State::kClosed, 0};
}

bool found_the_end(ssize_t moved, std::size_t wanted) {
  return moved < 0 ? errno != EINTR : static_cast<std::size_t>(moved) < wanted;
}

// One attempt to connect; keeps itself alive until it has an answer.
struct Connecting : std::enable_shared_from_this<Connecting> {
  explicit Connecting(asio::io_context& io) : resolver(io), socket(io) {}

  void resolve(const std::string& host, const std::string& port) {
    resolver.async_resolve(
        host, port,
        [self = shared_from_this()](boost::system::error_code error, const auto& found) {
          if (error) {
            self->done(
                Error{ErrorCode::kUnavailable, "the name cannot be resolved: " + error.message()});
            return;
          }
          asio::async_connect(self->socket, found,
                              [self](boost::system::error_code failed, const tcp::endpoint&) {
                                if (failed) {
                                  self->done(Error{ErrorCode::kUnavailable, failed.message()});
                                } else {
                                  self->done(std::make_unique<TcpStream>(std::move(self->socket)));
                                }
                              });
        });
  }

  tcp::resolver resolver;
  tcp::socket socket;
  std::function<void(Result<std::unique_ptr<TcpStream>>)> done;
};

}  // namespace

TcpStream::TcpStream(tcp::socket socket) : poller_(Poller::of(socket.get_executor().context())) {
  boost::system::error_code ignored;
  socket.native_non_blocking(true, ignored);
  socket.set_option(tcp::no_delay(true), ignored);
  watch_ = poller_.add(socket.release(ignored));
}

void TcpStream::connect(asio::io_context& io, const std::string& address,
                        std::function<void(Result<std::unique_ptr<TcpStream>>)> done) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  auto connecting = std::make_shared<Connecting>(io);
  connecting->done = std::move(done);
  boost::system::error_code not_numeric;
  const auto ip = asio::ip::make_address(host, not_numeric);
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  if (not_numeric || port.empty() || port.size() > 5) {
    connecting->resolve(host, port);
    return;
  }
  const tcp::endpoint endpoint(ip, static_cast<std::uint16_t>(std::atoi(port.c_str())));
  connecting->socket.async_connect(endpoint, [connecting](boost::system::error_code error) {
    if (error) {
      connecting->done(Error{ErrorCode::kUnavailable, error.message()});
    } else {
      connecting->done(std::make_unique<TcpStream>(std::move(connecting->socket)));
    }
  });
}

// A transfer that moved less than it could has found the end of what was there; the kernel tells
// when there is more.
TcpStream::Transfer TcpStream::receive(std::span<char> buffer) {
  if (!watch_) {
    return {State::kClosed, 0};
  }
  Poller::Watch& watch = **watch_;
  const ssize_t n = ::recv(watch.fd, buffer.data(), buffer.size(), 0);
  if (!watch.ended && found_the_end(n, buffer.size())) {
    watch.readable = false;
  }
  return transfer_of(n);
}

TcpStream::Transfer TcpStream::send(std::string_view bytes) {
  if (!watch_) {
    return {State::kClosed, 0};
  }
  Poller::Watch& watch = **watch_;
  const ssize_t n = ::send(watch.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (found_the_end(n, bytes.size())) {
    watch.writable = false;
  }
  return transfer_of(n);
}

void TcpStream::when_readable(std::function<void()> callback) {
  if (watch_) {
    poller_.when_readable(*watch_, std::move(callback));
  }
}

void TcpStream::when_writable(std::function<void()> callback) {
  if (watch_) {
    poller_.when_writable(*watch_, std::move(callback));
  }
}

void TcpStream::forget() {
  if (watch_) {
    poller_.forget(*watch_);
  }
}

void TcpStream::close() {
  if (const auto watch = std::exchange(watch_, std::nullopt)) {
    poller_.close(*watch);  // perhaps destroys us: a callback may own its stream
  }
}

void TcpStream::finish_sending() {
  if (watch_) {
    ::shutdown((*watch_)->fd, SHUT_WR);
  }
}

void TcpStream::abort() {
  if (watch_) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt((*watch_)->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }
}

std::string TcpStream::peer() const {
  tcp::endpoint endpoint;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  if (!watch_ || ::getpeername((*watch_)->fd, endpoint.data(), &size) != 0) {
    return "";
  }
  endpoint.resize(size);
  return endpoint.address().to_string();
}

}  // namespace spillway
