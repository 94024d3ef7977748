#pragma once
// A small HTTP/1.1 server on wire's codec, for the operators' port and the engine's: one exchange
// at a time on a connection, answered at once or as a stream. The callers' port has its own, in
// session and gateway. Everything runs on the thread of the given io_context.

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "base/result.h"
#include "net/listener.h"
#include "net/tcp_stream.h"

namespace spillway {

struct HttpRequest {
  std::string method;
  std::string path;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case
  std::string body;

  // The field's value; empty when absent. `name` in lower case.
  std::string_view field(std::string_view name) const;
};

// One request waiting for its answer. Kept alive by whoever answers; calls after the end do
// nothing.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual void respond(int status, std::string_view content_type, std::string_view body) = 0;
  // A streamed answer: begin, then pieces, each sent at once, then finish.
  virtual void begin(int status, std::string_view content_type) = 0;
  virtual void write(std::string_view piece) = 0;
  virtual void finish() = 0;
  // Ends the connection in the middle: for faults on purpose.
  virtual void cut() = 0;
  // Runs once if the caller goes away before the answer has ended.
  virtual void when_gone(std::function<void()> callback) = 0;
};

class HttpServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;
    int listening_socket = -1;  // one that listens already; below 0: bind host and port
    std::size_t body_bytes_max = 16 * 1024 * 1024;
    std::size_t connections_max = 10000;
    std::size_t output_bytes_max = 64 * 1024 * 1024;  // a reader slower than that is dropped
  };
  using Handler = std::function<void(HttpRequest, std::shared_ptr<HttpExchange>)>;

  static Result<std::unique_ptr<HttpServer>> open(boost::asio::io_context& io, Options options,
                                                  Handler handler);
  ~HttpServer();

  std::uint16_t port() const { return listener_->port(); }
  // Accepts no more and closes all connections.
  void stop();

 private:
  class Connection;

  HttpServer(Options options, Handler handler, std::unique_ptr<Listener> listener);
  void accept(std::unique_ptr<TcpStream> stream);

  Options options_;
  Handler handler_;
  std::unique_ptr<Listener> listener_;
  std::set<std::shared_ptr<Connection>> connections_;
};

}  // namespace spillway
