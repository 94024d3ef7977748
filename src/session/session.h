#pragma once
// One caller connection and its requests, one after another, as a state machine over bytes: it
// reads no socket and no clock. In go bytes, closings and the time; out come bytes, effects and a
// deadline. The gateway performs them on sockets, the tests and the lab in virtual time. Owned by
// the data-path strand.
//
//   head ──▶ body ──▶ admitted ──▶ connecting ──▶ replying ──▶ head of the next request
//     └────────┴─────── refused, invalid: an answer of our own ───────┘

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "session/effect.h"
#include "session/exchange.h"
#include "session/services.h"

namespace spillway {

class Session {
 public:
  // REQUIRES: services outlives the session.
  Session(Services& services, Instant now);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void feed(Side side, std::string_view bytes, Instant now);
  // The other end closed or reset. For the caller: nobody waits for the reply any more, all work
  // stops.
  void closed(Side side, Instant now);
  void connected(Instant now);
  void connect_failed(Instant now, std::string_view why);
  // The deadline has passed, or may have.
  void wake(Instant now);
  // Ends the connection after the present request; at once when there is none.
  void drain(Instant now);

  // Bytes to be sent there now; empty when there are none.
  std::string_view output(Side side) const;
  // So many bytes of output() have been sent.
  void sent(Side side, std::size_t bytes);
  // Is more input wanted from there? False while the other end is slower (backpressure): at most
  // kOutputHigh + one read are ever held for a slow caller.
  bool wants_input(Side side) const;
  std::optional<Instant> deadline() const;
  // What to do, in order. Take them after every call.
  std::vector<Effect> take_effects();

  static constexpr std::size_t kOutputHigh = 256 * 1024;

 private:
  enum class State { kHead, kBody, kConnecting, kReplying, kClosing };

  struct Outbox {
    std::string bytes;
    std::size_t sent = 0;
  };

  void read_requests(Instant now);
  bool read_head(Instant now);
  bool read_body(Instant now);
  void begin_exchange(const RequestHead& head, Instant now);
  void dispatch(Instant now);
  void dispatch_local(Instant now);
  void dispatch_to_engine(Instant now);
  void relay(std::string_view bytes, Instant now);
  void relay_first_bytes(Instant now);
  void finish_reply(Instant now);
  void engine_failed(Outcome outcome, std::string_view why, Instant now);
  void commit_stream_head();

  void answer(const LocalAnswer& answer, Instant now);
  void end_request(Outcome outcome, Instant now);
  void release_engine(bool reusable);
  void close_caller(bool abort);
  Outbox& outbox(Side side) { return side == Side::kCaller ? to_caller_ : to_engine_; }

  Services& services_;
  State state_ = State::kHead;
  std::string in_;             // bytes of the caller not yet consumed
  std::size_t head_seen_ = 0;  // bytes of in_ already searched for the end of the head
  Outbox to_caller_;
  Outbox to_engine_;
  std::unique_ptr<Exchange> exchange_;  // the present request; null between requests
  bool engine_held_ = false;
  bool draining_ = false;
  Instant idle_since_;
  std::vector<Effect> effects_;
};

}  // namespace spillway
