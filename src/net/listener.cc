#include "net/listener.h"

#include <utility>

#include <fmt/format.h>
#include <sys/socket.h>

namespace spillway {

namespace asio = boost::asio;
using asio::ip::tcp;

Result<std::unique_ptr<Listener>> Listener::open(asio::io_context& io, const std::string& host,
                                                 std::uint16_t port) {
  boost::system::error_code error;
  auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) {
    return Error{
        ErrorCode::kInvalid,
        fmt::format("{} is not an address to listen on; give one such as 127.0.0.1", host)};
  }
  auto listener = std::make_unique<Listener>(io);
  tcp::acceptor& acceptor = listener->acceptor_;
  const tcp::endpoint endpoint(address, port);
  acceptor.open(endpoint.protocol(), error);
  if (!error) {
    acceptor.set_option(asio::socket_base::reuse_address(true), error);
  }
  if (!error) {
    acceptor.bind(endpoint, error);
  }
  if (!error) {
    acceptor.listen(4096, error);
  }
  if (error) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("port {} of {}: {}", port, host, error.message())};
  }
  return listener;
}

Result<std::unique_ptr<Listener>> Listener::adopt(asio::io_context& io, int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  int listens = 0;
  socklen_t listens_size = sizeof(listens);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) != 0 ||
      listens == 0) {
    return Error{ErrorCode::kInvalid,
                 fmt::format("descriptor {} is not a listening socket", socket)};
  }
  auto listener = std::make_unique<Listener>(io);
  boost::system::error_code error;
  listener->acceptor_.assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), socket, error);
  if (error) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("descriptor {}: {}", socket, error.message())};
  }
  return listener;
}

void Listener::start(std::function<void(std::unique_ptr<TcpStream>)> accepted) {
  accepted_ = std::move(accepted);
  accept();
}

void Listener::accept() {
  acceptor_.async_accept([this](boost::system::error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted || !acceptor_.is_open()) {
      return;
    }
    if (!error) {
      accepted_(std::make_unique<TcpStream>(std::move(socket)));
      accept();
      return;
    }
    // Out of descriptors or memory: others must end first.
    pause_.expires_after(std::chrono::milliseconds(50));
    pause_.async_wait([this](boost::system::error_code stopped) {
      if (!stopped) {
        accept();
      }
    });
  });
}

void Listener::stop() {
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
}

std::uint16_t Listener::port() const {
  boost::system::error_code ignored;
  return acceptor_.local_endpoint(ignored).port();
}

}  // namespace spillway
