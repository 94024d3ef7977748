#pragma once
// One caller connection and its requests, one after another, as a state machine over bytes: it
// reads no socket and no clock. In go bytes, closings and the time; out come bytes, effects and a
// deadline. The gateway performs them on sockets, tests in virtual time. Owned by the data-path
// strand.
//
//                             ┌──another replica, until content was shown──┐
//                             ▼                                            │
//   head ──▶ body ──▶ admitted ──▶ connecting ──▶ replying ────────────────┤
//     │        │         │                                                 ▼
//     └────────┴─────────┴── refused, invalid: an answer of our own ──▶ head of the next request

#include <cstddef>
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
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void feed(Side side, std::string_view bytes, Instant now);
  // The other end closed or reset. The caller's, after its request: nobody waits for the reply any
  // more, all work for it stops.
  void closed(Side side, Instant now);
  // `reused`: an idle connection was taken, which the engine may have closed by now.
  void connected(bool reused, Instant now);
  void connect_failed(std::string_view why, Instant now);
  // The replica is known to hang: a request that waits there for its beginning goes elsewhere.
  void replica_hangs(const std::string& replica, Instant now);
  // The deadline has passed, or may have.
  void wake(Instant now);
  // Ends the connection after the present request; at once when there is none.
  void drain(Instant now);

  // Bytes to be sent there now; empty when there are none.
  std::string_view output(Side side) const;
  // So many bytes of output() have been sent.
  void sent(Side side, std::size_t bytes);
  // Is more input wanted from there? False while the caller is slower than the engine
  // (backpressure): for a slow caller at most kOutputHigh and one read are held.
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

    std::string_view rest() const { return std::string_view(bytes).substr(sent); }
    void clear() {
      bytes.clear();
      sent = 0;
    }
  };

  // The caller's side: session.cc.
  void read_requests(Instant now);
  bool read_head(Instant now);
  bool read_body(Instant now);
  void begin_exchange(const RequestHead* head, Instant now);
  void refuse_request(OpenAiError error, bool keep, Instant now);
  void dispatch(Instant now);
  void dispatch_local(Instant now);
  void answer(const LocalAnswer& answer, Instant now);
  void append_our_headers(std::string& out) const;
  void end_request(Outcome outcome, Instant now);
  void close_caller(bool linger);
  Instant engine_deadline() const;
  // A stream that is watched token by token; under the bypass it is not.
  bool waits_for_tokens() const { return exchange_->record.streamed && !exchange_->plain; }
  void wake_waiting(Instant now);

  // A body that is passed on while it arrives: session_upload.cc.
  bool find_upload_pool(Instant now);
  void pass_upload(Instant now);

  // To the engine: session_engine.cc.
  void dispatch_to_engine(Instant now);
  bool admit(const RequestFacts& facts, Instant now);
  void write_engine_head();
  void start(Instant now);
  void refuse(const Refused& refused, Instant now);
  void send_to(const std::string& replica, bool fresh, Instant now);
  bool try_fresh_connection(Instant now);
  // How an attempt ended badly, and what the caller is told if nothing can be done about it.
  struct Failure {
    AttemptFault fault = AttemptFault::kFailed;
    Outcome outcome = Outcome::kEngineError;
    OpenAiError error;
    std::string why;    // for the log
    bool lost = false;  // the connection broke: the engine may have died of this request
    std::optional<Duration> retry_after;
  };
  // Judges the replica; true when the request is on its way to another one.
  bool send_again(const Failure& failure, Instant now);
  void attempt_failed(const Failure& failure, Instant now);
  void connection_lost(Instant now);
  void timed_out(std::string why, Instant now);
  void finish_with_pool(Instant now, bool whole, bool answered);
  void release_engine(bool reusable);

  // To the caller: session_reply.cc.
  void relay(Instant now);
  void relay_stream(Instant now);
  bool ended_badly(Instant now);
  void commit_stream(std::string_view engine_headers);
  void flush_stream();
  void send_comment(Instant now);
  void tell_progress(Instant now);
  void stop_at_budget(Instant now);
  void finish_stream(Instant now);
  void finish_whole(Instant now);
  void end_in_band(const OpenAiError& error, Outcome outcome, const std::string& why, Instant now);

  Services& services_;
  State state_ = State::kHead;
  std::string in_;  // bytes of the caller that are not consumed
  std::size_t head_searched_ = 0;
  Outbox to_caller_;
  Outbox to_engine_;
  std::unique_ptr<Exchange> exchange_;  // null between requests
  bool engine_held_ = false;
  bool draining_ = false;
  Instant idle_since_;
  Instant head_began_;  // its first byte
  std::vector<Effect> effects_;
};

}  // namespace spillway
