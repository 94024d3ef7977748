#pragma once
// A small HTTP/1.1 client on wire's codec: one call a connection, by callbacks on the thread of its
// io_context. For scrapes, exports and the load tool; the gateway's way to the engines is in
// session and gateway.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "base/result.h"
#include "base/time.h"

namespace spillway {

struct HttpCall {
  std::string method = "GET";
  std::string address;  // host:port
  std::string path = "/";
  std::vector<std::pair<std::string, std::string>> fields;
  std::string body;
  Duration timeout = std::chrono::seconds(10);  // of the whole call
};

struct HttpReply {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case
  std::string body;

  std::string_view field(std::string_view name) const;
};

// What a call tells while it runs. Each is optional; `end` comes exactly once, unless the call was
// dropped.
struct HttpCallEvents {
  std::function<void(const HttpReply&)> head;   // status and fields; the body is empty
  std::function<void(std::string_view)> piece;  // of the body
  std::function<void(Status)> end;              // kTimeout, or kUnavailable with a reason
};

// A running call; dropping it closes the connection.
class HttpCallHandle;
using HttpCallPtr = std::shared_ptr<HttpCallHandle>;

HttpCallPtr start_call(boost::asio::io_context& io, HttpCall call, HttpCallEvents events);
void drop_call(const HttpCallPtr& call);

// The whole reply at once; a body above `bytes_max` is an error.
HttpCallPtr fetch(boost::asio::io_context& io, HttpCall call, std::size_t bytes_max,
                  std::function<void(Result<HttpReply>)> done);

// "http://host:port/path" -> {host:port, path}; an error for anything else.
struct HttpUrl {
  std::string address;
  std::string path;
};
Result<HttpUrl> parse_http_url(std::string_view url);

}  // namespace spillway
