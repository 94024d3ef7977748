#include "host/listening_sockets.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace spillway {
namespace {

constexpr int kFirstInherited = 3;
constexpr int kBacklog = 4096;

Error not_opened(const std::string& host, std::uint16_t port, const char* what) {
  return {ErrorCode::kUnavailable, fmt::format("port {} of {}: {}", port, host, what)};
}

}  // namespace

Result<int> open_listening_socket(const std::string& host, std::uint16_t port) {
  sockaddr_storage address{};
  socklen_t size = 0;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
  const std::string numeric = host == "localhost" ? "127.0.0.1" : host;
  if (::inet_pton(AF_INET, numeric.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    size = sizeof(sockaddr_in);
  } else if (::inet_pton(AF_INET6, numeric.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    size = sizeof(sockaddr_in6);
  } else {
    return Error{
        ErrorCode::kInvalid,
        fmt::format("{} is not an address to listen on; give one such as 127.0.0.1", host)};
  }
  const int socket = ::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) {
    return not_opened(host, port, ::strerrordesc_np(errno));
  }
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(socket, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(socket, kBacklog) != 0) {
    const int why = errno;
    ::close(socket);
    return not_opened(host, port, ::strerrordesc_np(why));
  }
  return socket;
}

std::map<std::string, int> inherited_sockets() {
  std::map<std::string, int> sockets;
  // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs yet, as the header asks.
  const char* pid = std::getenv("LISTEN_PID");
  const char* count = std::getenv("LISTEN_FDS");
  const char* names_text = std::getenv("LISTEN_FDNAMES");
  // NOLINTEND(concurrency-mt-unsafe)
  if (pid == nullptr || count == nullptr || std::atoi(pid) != ::getpid()) {
    return sockets;
  }
  std::string_view names = names_text == nullptr ? "" : names_text;
  for (int i = 0; i < std::atoi(count) && i < 16; ++i) {
    const std::size_t end = std::min(names.find(':'), names.size());
    std::string name(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
    if (name.empty() || name == "unknown") {
      name = i == 0 ? "callers" : "operators";
    }
    const int socket = kFirstInherited + i;
    ::fcntl(socket, F_SETFD, FD_CLOEXEC);
    ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
    sockets.emplace(std::move(name), socket);
  }
  return sockets;
}

}  // namespace spillway
