// The two ends of the proxy benchmark: an engine that answers at once or streams at a pace, and the
// callers. Plain epoll, so that they cost little beside what is measured.
//
//   peers backend PORT EVENTS PACE_US        answers POST; "stream" in a body: EVENTS events,
//   paced;
//                                            "idle" in a body: one event, then silence
//   peers requests PORT CONNECTIONS COUNT    a closed loop of small requests; prints how many
//   peers streams PORT CONNECTIONS ROUNDS    streams read to their end; prints the events
//   peers idle PORT CONNECTIONS              opens streams, prints "ready", ends with its input
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace {

const std::string kEvent =
    "data: "
    "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\","
    "\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"finish_reason\":null}]}\n\n";
const std::string kDone =
    "data: "
    "{\"id\":\"chatcmpl-1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}"
    "\n\n"
    "data: [DONE]\n\n";

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

std::string chunk(const std::string& payload) {
  char size[32];
  std::snprintf(size, sizeof(size), "%zx\r\n", payload.size());
  return size + payload + "\r\n";
}

std::string whole_reply() {
  const std::string body =
      "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"m\","
      "\"choices\":"
      "[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"" +
      std::string(180, 'x') +
      "\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":40,"
      "\"total_tokens\":60}}";
  return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string request(const char* kind) {
  const std::string body = std::string("{\"model\":\"m\",\"max_tokens\":40,\"stream\":") +
                           (*kind == '-' ? "false" : "true") + ",\"user\":\"" + kind +
                           "\",\"messages\":[{\"role\":\"user\",\"content\":\"" +
                           std::string(180, 'y') + "\"}]}";
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
         "x-spillway-first-token-timeout-ms: 600000\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

sockaddr_in loopback(int port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

void watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
    die("epoll_ctl");
  }
}

void put(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EAGAIN || errno == EINTR) {
        continue;
      }
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

int connect_to(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in at = loopback(port);
  if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0) {
    die("connect");
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

// The size of a whole message at the front; 0: not there yet. Bodies by length or until `end`.
std::size_t message_size(std::string_view bytes, std::string_view end) {
  const std::size_t head = bytes.find("\r\n\r\n");
  if (head == std::string_view::npos) {
    return 0;
  }
  for (const char* name : {"Content-Length: ", "content-length: "}) {
    const std::size_t at = bytes.substr(0, head).find(name);
    if (at != std::string_view::npos) {
      const std::size_t size =
          head + 4 + static_cast<std::size_t>(std::atoll(bytes.data() + at + std::strlen(name)));
      return bytes.size() >= size ? size : 0;
    }
  }
  const std::size_t at = bytes.find(end, head);
  return at == std::string_view::npos ? (end.empty() ? head + 4 : 0) : at + end.size();
}

int backend(int port, int events, int pace_us) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in at = loopback(port);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0 ||
      ::listen(listener, 4096) != 0) {
    die("listen");
  }
  const int epoll = ::epoll_create1(0);
  const int timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  itimerspec pace{};
  pace.it_interval.tv_nsec = pace.it_value.tv_nsec = pace_us * 1000L;
  ::timerfd_settime(timer, 0, &pace, nullptr);
  watch(epoll, listener);
  watch(epoll, timer);
  const std::string reply = whole_reply();
  const std::string head =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string event = chunk(kEvent);
  const std::string end = chunk(kDone) + "0\r\n\r\n";
  std::map<int, std::string> inputs;
  std::map<int, int> streams;  // events still to send
  std::vector<epoll_event> ready(1024);
  std::vector<char> buffer(65536);
  while (true) {
    const int count = ::epoll_wait(epoll, ready.data(), static_cast<int>(ready.size()), -1);
    for (int i = 0; i < count; ++i) {
      const int fd = ready[static_cast<std::size_t>(i)].data.fd;
      if (fd == listener) {
        const int made = ::accept4(listener, nullptr, nullptr, 0);
        if (made >= 0) {
          ::setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
          watch(epoll, made);
        }
        continue;
      }
      if (fd == timer) {
        std::uint64_t ticks = 0;
        if (::read(timer, &ticks, sizeof(ticks)) > 0) {
          for (auto it = streams.begin(); it != streams.end();) {
            put(it->first, it->second > 0 ? event : end);
            it = it->second-- > 0 ? std::next(it) : streams.erase(it);
          }
        }
        continue;
      }
      const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
      if (n <= 0) {
        inputs.erase(fd);
        streams.erase(fd);
        ::close(fd);
        continue;
      }
      std::string& in = inputs[fd];
      in.append(buffer.data(), static_cast<std::size_t>(n));
      while (const std::size_t size = message_size(in, "")) {
        const std::string_view message = std::string_view(in).substr(0, size);
        if (message.starts_with("GET")) {
          put(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        } else if (message.find("\"idle\"") != std::string_view::npos) {
          put(fd, head + event);
        } else if (message.find("\"stream\":true") != std::string_view::npos) {
          put(fd, head);
          streams[fd] = events;
        } else {
          put(fd, reply);
        }
        in.erase(0, size);
      }
    }
  }
}

struct Callers {
  Callers(int port, int connections) : epoll(::epoll_create1(0)) {
    for (int i = 0; i < connections; ++i) {
      const int fd = connect_to(port);
      watch(epoll, fd);
      inputs[fd];
    }
  }

  // Calls done(fd, message) for each reply that ends with `end` (or has a length), until it says
  // no.
  template <class Done>
  void run(std::string_view end, Done done) {
    std::vector<epoll_event> ready(1024);
    std::vector<char> buffer(65536);
    while (true) {
      const int count = ::epoll_wait(epoll, ready.data(), static_cast<int>(ready.size()), -1);
      for (int i = 0; i < count; ++i) {
        const int fd = ready[static_cast<std::size_t>(i)].data.fd;
        const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
        if (n <= 0) {
          std::fprintf(stderr, "a connection was closed\n");
          std::exit(1);
        }
        std::string& in = inputs[fd];
        in.append(buffer.data(), static_cast<std::size_t>(n));
        while (const std::size_t size = message_size(in, end)) {
          const bool more = done(fd, std::string_view(in).substr(0, size));
          in.erase(0, size);
          if (!more) {
            return;
          }
        }
      }
    }
  }

  int epoll;
  std::map<int, std::string> inputs;
};

long count_of(std::string_view text, std::string_view what) {
  long count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string_view::npos; ++at) {
    ++count;
  }
  return count;
}

int requests(int port, int connections, long wanted) {
  Callers callers(port, connections);
  const std::string ask = request("-");
  for (const auto& [fd, in] : callers.inputs) {
    put(fd, ask);
  }
  long done = 0;
  callers.run("0\r\n\r\n", [&](int fd, std::string_view reply) {
    if (!reply.starts_with("HTTP/1.1 200")) {
      std::fprintf(stderr, "%.200s\n", std::string(reply).c_str());
      std::exit(1);
    }
    put(fd, ask);
    return ++done < wanted;
  });
  std::printf("%ld\n", done);
  return 0;
}

int streams(int port, int connections, long rounds) {
  Callers callers(port, connections);
  const std::string ask = request("stream");
  for (const auto& [fd, in] : callers.inputs) {
    put(fd, ask);
  }
  long ended = 0;
  long events = 0;
  callers.run("0\r\n\r\n", [&](int fd, std::string_view reply) {
    events += count_of(reply, "\n\n");
    if (++ended >= rounds * connections) {
      return false;
    }
    put(fd, ask);
    return true;
  });
  std::printf("%ld\n", events);
  return 0;
}

int idle(int port, int connections) {
  Callers callers(port, connections);
  const std::string ask = request("idle");
  int begun = 0;
  for (const auto& [fd, in] : callers.inputs) {
    put(fd, ask);
  }
  callers.run(" token", [&](int, std::string_view) { return ++begun < connections; });
  std::printf("ready\n");
  std::fflush(stdout);
  return std::getchar() == EOF ? 0 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  descriptors.rlim_cur = descriptors.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &descriptors);
  const std::string_view mode = argc > 3 ? argv[1] : "";
  const auto number = [&](int i) { return i < argc ? std::atoi(argv[i]) : 0; };
  if (mode == "backend") {
    return backend(number(2), number(3), number(4));
  }
  if (mode == "requests") {
    return requests(number(2), number(3), number(4));
  }
  if (mode == "streams") {
    return streams(number(2), number(3), number(4));
  }
  if (mode == "idle") {
    return idle(number(2), number(3));
  }
  std::fprintf(stderr, "see the head of peers.cc\n");
  return 2;
}
