#include "main/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "net/clock.h"

namespace spillway {
namespace {

// A gateway that ends within this time of its first start, with an error, has said why.
constexpr Duration kFirstStart = std::chrono::seconds(5);
constexpr Duration kLook = std::chrono::milliseconds(500);

sigset_t watched_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR2}) {
    ::sigaddset(&set, signal);
  }
  return set;
}

}  // namespace

Supervisor::Supervisor(Program gateway, std::optional<Program> engine)
    : gateway_(std::move(gateway)) {
  if (engine) {
    engine_.emplace(*std::move(engine));
  }
}

bool Supervisor::start(Running& running) {
  running.start_at.reset();
  auto child = ChildProcess::start(running.program.command, running.program.options);
  if (!child) {
    fmt::print(stderr, "error: {}: {}\n", running.program.name, child.error().message);
    return false;
  }
  running.child.emplace(*std::move(child));
  running.started = monotonic_now();
  return true;
}

// Starts it again when it has ended by itself.
void Supervisor::look_after(Running& running) {
  const Instant now = monotonic_now();
  if (running.child && running.child->ended()) {
    const int code = running.child->exit_code().value_or(1);
    const Duration run = now - running.started;
    running.child.reset();
    const bool wrong_start = &running == &gateway_ && !running.ever_settled && run < kFirstStart &&
                             code < 128 && code != 0;
    if (interruptions_ > 0 || wrong_start) {
      if (&running == &gateway_) {
        exit_code_ = code;
      }
      return;
    }
    const Duration pause = running.backoff.after_run_of(run);
    running.start_at = now + pause;
    fmt::print(stderr, "{} ended ({}) after {:.1f} s; it is started again in {:.1f} s\n",
               running.program.name,
               code >= 128 ? fmt::format("signal {}", code - 128) : fmt::format("code {}", code),
               to_seconds(run), to_seconds(pause));
  }
  running.ever_settled =
      running.ever_settled || (running.child && now - running.started >= kFirstStart);
  if (running.start_at && now >= *running.start_at && !start(running)) {
    running.start_at = now + running.backoff.after_run_of(Duration{});
  }
}

void Supervisor::replace_gateway() {
  if (!gateway_.child) {
    return;  // it is about to be started anyway
  }
  ChildProcess old = *std::move(gateway_.child);
  gateway_.child.reset();
  fmt::print(stderr, "a new gateway takes over; the old one drains\n");
  if (start(gateway_)) {
    old.signal(SIGUSR1);
    draining_.push_back(std::move(old));
  } else {
    gateway_.child.emplace(std::move(old));
  }
}

// True when all is to end.
bool Supervisor::take_signal(int signal) {
  switch (signal) {
    case SIGTERM:
    case SIGINT:
      ++interruptions_;
      if (interruptions_ == 1) {
        fmt::print(stderr, "\nStopping: streams may finish; again to stop at once.\n");
      }
      if (gateway_.child) {
        gateway_.child->signal(SIGTERM);
      } else {
        exit_code_ = 0;
      }
      return interruptions_ > 2;
    case SIGHUP:
      if (gateway_.child) {
        gateway_.child->signal(SIGHUP);
      }
      return false;
    case SIGUSR2:
      replace_gateway();
      return false;
    default:
      return false;
  }
}

Duration Supervisor::next_wake() const {
  Duration wait = kLook;
  const Instant now = monotonic_now();
  for (const Running* running : {&gateway_, engine_ ? &*engine_ : nullptr}) {
    if (running != nullptr && running->start_at) {
      wait = std::min(wait, std::max<Duration>(*running->start_at - now, Duration{1}));
    }
  }
  return wait;
}

int Supervisor::run(bool (*engine_ready)(ChildProcess&, void*), void* context) {
  const sigset_t watched = watched_signals();
  if (engine_) {
    if (!start(*engine_) || !engine_ready(*engine_->child, context)) {
      return 1;
    }
  }
  // From here on they wait for us; before, Ctrl-C ends us, and with us the engine.
  ::sigprocmask(SIG_BLOCK, &watched, nullptr);
  if (!start(gateway_)) {
    return 1;
  }
  while (!exit_code_) {
    const Duration wait = next_wake();
    const timespec span{.tv_sec = wait / std::chrono::seconds(1),
                        .tv_nsec = (wait % std::chrono::seconds(1)).count()};
    const int signal = ::sigtimedwait(&watched, nullptr, &span);
    if (signal > 0 && take_signal(signal)) {
      return 1;
    }
    look_after(gateway_);
    if (engine_ && interruptions_ == 0) {
      look_after(*engine_);
    }
    std::erase_if(draining_, [](ChildProcess& child) { return child.ended(); });
  }
  return *exit_code_;
}

}  // namespace spillway
