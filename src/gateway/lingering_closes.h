#pragma once
// Connections that we have answered while the other end may still be sending. Closing at once would
// reset the connection, and the answer could be lost with it (RFC 9112, section 9.6): so we say
// that we are done, throw away what still comes, and close after two seconds or when the other end
// is done. Bound: 1,000 at once, more are closed at once. Owned by the data-path thread.

#include <list>
#include <memory>
#include <span>

#include <boost/asio/io_context.hpp>

#include "base/time.h"
#include "net/tcp_stream.h"
#include "net/timer.h"

namespace spillway {

class LingeringCloses {
 public:
  // `buffer`: shared with others; each read is forgotten at once.
  LingeringCloses(boost::asio::io_context& io, std::span<char> buffer)
      : buffer_(buffer), timer_(io) {}

  void add(std::unique_ptr<TcpStream> stream);

 private:
  struct Lingering {
    std::unique_ptr<TcpStream> stream;
    Instant until;
  };
  using Place = std::list<Lingering>::iterator;

  void drop_input(Place place);
  void close_old();

  std::span<char> buffer_;
  std::list<Lingering> streams_;  // in the order of their ends
  Timer timer_;
  bool timer_runs_ = false;
};

}  // namespace spillway
