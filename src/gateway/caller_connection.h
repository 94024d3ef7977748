#pragma once
// One caller's socket, its session, and the engine's socket while a request runs: performs the
// session's effects and nothing else. Every event ends in pump(), which is the whole loop. Owned by
// the gateway, on the data-path thread.

#include <memory>
#include <optional>
#include <string>

#include <boost/asio/steady_timer.hpp>

#include "net/tcp_stream.h"
#include "session/session.h"

namespace spillway {

class Gateway;

class CallerConnection : public std::enable_shared_from_this<CallerConnection> {
 public:
  // REQUIRES: the gateway outlives it, or close() was called.
  CallerConnection(Gateway& gateway, std::unique_ptr<TcpStream> caller);

  void start();
  void drain();
  // The replica is known to hang.
  void replica_hangs(const std::string& replica);
  void close();
  // For the gateway, at the end of the loop's turn.
  void pump_due() {
    pump_is_due_ = false;
    pump();
  }

 private:
  void pump();
  void perform(Effect& effect);
  void connect(const ConnectEngine& wanted);
  bool flush(Side side);
  void readable(Side side);
  void writable(Side side);
  void arm();
  void arm_read(Side side);
  void arm_write(Side side);
  void arm_timer();
  std::unique_ptr<TcpStream>& stream(Side side) {
    return side == Side::kCaller ? caller_ : engine_;
  }

  struct Armed {
    bool read = false;
    bool write = false;
  };

  Gateway& gateway_;
  std::unique_ptr<TcpStream> caller_;
  std::unique_ptr<TcpStream> engine_;
  std::string replica_;        // where engine_ leads
  std::uint64_t attempt_ = 0;  // a connection made for an earlier attempt is not ours any more
  Session session_;
  Armed armed_caller_;
  Armed armed_engine_;
  boost::asio::steady_timer timer_;
  std::optional<Instant> timer_at_;
  bool closing_ = false;  // when the output is sent
  bool linger_ = false;   // not at once: it may still be sending
  bool pumping_ = false;
  bool pump_is_due_ = false;  // the gateway knows
};

}  // namespace spillway
