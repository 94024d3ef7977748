#pragma once
// Keeps the gateway and, where asked for, an engine of ours running: starts them, starts them again
// with growing pauses when they end by themselves, passes signals on, replaces the gateway without
// refusing a connection. It holds the listening sockets, so callers who come while there is no
// gateway wait in its queue. One thread, no event loop: it only waits for signals.
//
//   SIGTERM, SIGINT  drain and end; a second one ends at once
//   SIGHUP           read the configuration again
//   SIGUSR2          a new gateway (a new binary, too) takes over; the old one drains

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "host/child_process.h"

namespace spillway {

// How long to wait before a program that ended is started again. Pure.
class RestartBackoff {
 public:
  static constexpr Duration kFirst = std::chrono::milliseconds(100);
  static constexpr Duration kMost = std::chrono::seconds(10);
  static constexpr Duration kSettled = std::chrono::seconds(60);  // a run that long forgives all

  // The program has ended after running for so long.
  Duration after_run_of(Duration run) {
    next_ = run >= kSettled || next_ == Duration{} ? kFirst : std::min(2 * next_, kMost);
    return next_;
  }

 private:
  Duration next_{};
};

class Supervisor {
 public:
  struct Program {
    std::string name;  // for messages
    std::vector<std::string> command;
    ChildProcess::Options options;
  };

  // REQUIRES: no other thread runs.
  Supervisor(Program gateway, std::optional<Program> engine);

  // Until a signal ends it, or the gateway ends at its first start. `started` is called once, when
  // the engine is there (it may wait for it) and before the gateway starts. Returns an exit code.
  int run(bool (*engine_ready)(ChildProcess& engine, void* context), void* context);

 private:
  struct Running {
    explicit Running(Program what) : program(std::move(what)) {}

    Program program;
    std::optional<ChildProcess> child;
    Instant started;
    std::optional<Instant> start_at;
    RestartBackoff backoff;
    bool ever_settled = false;
  };

  bool start(Running& running);
  void look_after(Running& running);
  void replace_gateway();
  bool take_signal(int signal);
  Duration next_wake() const;

  Running gateway_;
  std::optional<Running> engine_;
  std::vector<ChildProcess> draining_;  // gateways that have been replaced
  int interruptions_ = 0;
  std::optional<int> exit_code_;
};

}  // namespace spillway
