#include "gateway/caller_connection.h"

#include <utility>
#include <variant>

#include "gateway/gateway.h"
#include "net/clock.h"

namespace spillway {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

}  // namespace

CallerConnection::CallerConnection(Gateway& gateway, std::unique_ptr<TcpStream> caller)
    : gateway_(gateway),
      caller_(std::move(caller)),
      session_(gateway.services(), monotonic_now()),
      timer_(gateway.io()) {}

void CallerConnection::start() {
  pump();
}

void CallerConnection::drain() {
  session_.drain(monotonic_now());
  pump();
}

void CallerConnection::replica_hangs(const std::string& replica) {
  session_.replica_hangs(replica, monotonic_now());
  pump();
}

void CallerConnection::close() {
  if (!caller_) {
    return;
  }
  const auto self = shared_from_this();
  session_.closed(Side::kCaller, monotonic_now());
  for (Effect& effect : session_.take_effects()) {
    perform(effect);
  }
  timer_.cancel();
  if (linger_) {
    gateway_.lingering().add(std::move(caller_));
  } else {
    caller_->close();
  }
  caller_.reset();
  gateway_.forget(self);
}

// Performs what the session wants until it wants nothing more, then waits for the world.
void CallerConnection::pump() {
  if (pumping_) {
    return;  // an effect led here; the loop below goes on
  }
  pumping_ = true;
  const auto self = shared_from_this();
  while (caller_) {
    std::vector<Effect> effects = session_.take_effects();
    for (Effect& effect : effects) {
      perform(effect);
    }
    const bool to_caller = flush(Side::kCaller);
    const bool to_engine = flush(Side::kEngine);
    if (effects.empty() && !to_caller && !to_engine) {
      break;
    }
  }
  pumping_ = false;
  if (caller_ && closing_ && session_.output(Side::kCaller).empty()) {
    close();
  }
  if (caller_) {
    arm();
  }
}

void CallerConnection::perform(Effect& effect) {
  std::visit(Overloaded{
                 [&](const ConnectEngine& wanted) { connect(wanted); },
                 [&](const ReleaseEngine& release) {
                   ++attempt_;
                   armed_engine_ = {};
                   if (!engine_) {
                     return;
                   }
                   if (release.reusable) {
                     engine_->forget();
                     gateway_.engines().give_back(replica_, std::move(engine_));
                   } else {
                     engine_->close();
                   }
                   engine_.reset();
                 },
                 [&](const CloseCaller& close_caller) {
                   closing_ = true;
                   linger_ = close_caller.linger;
                   if (close_caller.abort && caller_) {
                     caller_->abort();
                     close();
                   }
                 },
                 [&](RequestEnded& ended) { gateway_.ended(std::move(ended.record)); },
             },
             effect);
}

void CallerConnection::connect(const ConnectEngine& wanted) {
  replica_ = wanted.replica;
  const std::uint64_t attempt = ++attempt_;
  if (!wanted.fresh) {
    if (auto idle = gateway_.engines().take(replica_)) {
      engine_ = std::move(idle);
      session_.connected(true, monotonic_now());
      return;
    }
  }
  TcpStream::connect(gateway_.io(), replica_,
                     [self = shared_from_this(), attempt](Result<std::unique_ptr<TcpStream>> made) {
                       if (attempt != self->attempt_ || !self->caller_) {
                         return;
                       }
                       if (made) {
                         self->engine_ = *std::move(made);
                         self->session_.connected(false, monotonic_now());
                       } else {
                         self->session_.connect_failed(made.error().message, monotonic_now());
                       }
                       self->pump();
                     });
}

// Sends what it can; true when something was sent or the other end has gone.
bool CallerConnection::flush(Side side) {
  const Armed& armed = side == Side::kCaller ? armed_caller_ : armed_engine_;
  bool moved = false;
  while (stream(side) && !armed.write && !session_.output(side).empty()) {
    const auto put = stream(side)->send(session_.output(side));
    if (put.state == TcpStream::State::kClosed) {
      if (side == Side::kCaller) {
        close();
      } else {
        session_.closed(side, monotonic_now());
      }
      return true;
    }
    if (put.state == TcpStream::State::kWouldBlock) {
      arm_write(side);
      return moved;
    }
    session_.sent(side, put.bytes);
    moved = true;
  }
  return moved;
}

void CallerConnection::readable(Side side) {
  (side == Side::kCaller ? armed_caller_ : armed_engine_).read = false;
  const std::span<char> buffer = gateway_.read_buffer();
  const auto got = stream(side)->receive(buffer);
  switch (got.state) {
    case TcpStream::State::kOk:
      session_.feed(side, {buffer.data(), got.bytes}, monotonic_now());
      break;
    case TcpStream::State::kWouldBlock:
      break;
    case TcpStream::State::kClosed:
      session_.closed(side, monotonic_now());  // the caller may still be told why
      break;
  }
  if (!std::exchange(pump_is_due_, true)) {
    gateway_.pump_soon(shared_from_this());
  }
}

void CallerConnection::writable(Side side) {
  (side == Side::kCaller ? armed_caller_ : armed_engine_).write = false;
  pump();
}

void CallerConnection::arm() {
  arm_read(Side::kCaller);
  arm_read(Side::kEngine);
  arm_timer();
}

// The streams are ours and drop their callbacks when they close or leave us, so `this` needs no
// owner in them; what fits two words costs no allocation.
void CallerConnection::arm_write(Side side) {
  (side == Side::kCaller ? armed_caller_ : armed_engine_).write = true;
  if (side == Side::kCaller) {
    caller_->when_writable([this] { writable(Side::kCaller); });
  } else {
    engine_->when_writable([this] { writable(Side::kEngine); });
  }
}

void CallerConnection::arm_read(Side side) {
  Armed& armed = side == Side::kCaller ? armed_caller_ : armed_engine_;
  if (!stream(side) || armed.read || !session_.wants_input(side)) {
    return;
  }
  armed.read = true;
  if (side == Side::kCaller) {
    caller_->when_readable([this] { readable(Side::kCaller); });
  } else {
    engine_->when_readable([this] { readable(Side::kEngine); });
  }
}

// The timer is set anew only when it must ring earlier; ringing too early costs one look.
void CallerConnection::arm_timer() {
  const std::optional<Instant> due = session_.deadline();
  if (!due || (timer_at_ && *timer_at_ <= *due)) {
    return;
  }
  timer_at_ = due;
  timer_.expires_after(std::max<Duration>(*due - monotonic_now(), Duration{}));
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code stopped) {
    const auto self = weak.lock();
    if (stopped || !self || !self->caller_) {
      return;
    }
    self->timer_at_.reset();
    self->session_.wake(monotonic_now());
    self->pump();
  });
}

}  // namespace spillway
