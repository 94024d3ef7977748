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

TcpStream::TcpStream(tcp::socket socket) : socket_(std::move(socket)) {
  boost::system::error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(tcp::no_delay(true), ignored);
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

TcpStream::Transfer TcpStream::receive(std::span<char> buffer) {
  return transfer_of(::recv(socket_.native_handle(), buffer.data(), buffer.size(), 0));
}

TcpStream::Transfer TcpStream::send(std::string_view bytes) {
  return transfer_of(::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

void TcpStream::when_readable(std::function<void()> callback) {
  waiting_->readable = std::move(callback);
  if (waiting_->waits_for_reading) {
    return;
  }
  waiting_->waits_for_reading = true;
  socket_.async_wait(tcp::socket::wait_read, [waiting = waiting_](boost::system::error_code error) {
    waiting->waits_for_reading = false;
    if (waiting->readable && error != asio::error::operation_aborted) {
      std::exchange(waiting->readable, nullptr)();
    }
  });
}

void TcpStream::when_writable(std::function<void()> callback) {
  waiting_->writable = std::move(callback);
  socket_.async_wait(tcp::socket::wait_write,
                     [waiting = waiting_](boost::system::error_code error) {
                       if (waiting->writable && error != asio::error::operation_aborted) {
                         std::exchange(waiting->writable, nullptr)();
                       }
                     });
}

void TcpStream::forget() {
  waiting_->readable = nullptr;
  waiting_->writable = nullptr;
}

void TcpStream::close() {
  forget();
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void TcpStream::finish_sending() {
  boost::system::error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
}

void TcpStream::abort() {
  boost::system::error_code ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  close();
}

std::string TcpStream::peer() const {
  boost::system::error_code error;
  const auto endpoint = socket_.remote_endpoint(error);
  return error ? "" : endpoint.address().to_string();
}

}  // namespace spillway
