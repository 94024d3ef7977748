#pragma once
// Idle connections to the engines, kept for the next request. An idle one is watched: the engine
// closing it ends it here too. Bounds: 64 a replica, 4 seconds idle (uvicorn closes after 5). Owned
// by the data-path thread.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "base/time.h"
#include "net/tcp_stream.h"
#include "net/timer.h"

namespace spillway {

class EngineConnections {
 public:
  explicit EngineConnections(boost::asio::io_context& io) : timer_(io) {}

  // The connection used last; null when there is none.
  std::unique_ptr<TcpStream> take(const std::string& replica);
  void give_back(const std::string& replica, std::unique_ptr<TcpStream> stream);

 private:
  struct Idle {
    std::unique_ptr<TcpStream> stream;
    Instant since;
    std::uint64_t number = 0;
  };

  void watch(Idle& idle);
  void on_readable(std::uint64_t number);
  void close_old();

  Timer timer_;
  bool timer_runs_ = false;
  std::uint64_t numbers_ = 0;
  std::map<std::string, std::vector<Idle>> idle_;  // the one used last stands last
};

}  // namespace spillway
