#pragma once
// A program started by us that ends with us: it gets SIGTERM when its owner is destroyed, SIGKILL
// when that does not help, and SIGKILL from the kernel should we die first. One owner thread, which
// must outlive it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/result.h"
#include "base/time.h"

namespace spillway {

class ChildProcess {
 public:
  struct Options {
    int nice = 0;                        // added to the priority of its processor time
    std::map<std::string, int> sockets;  // handed over by name; see listening_sockets.h
  };

  // Its output goes where ours goes. REQUIRES, with sockets: no other thread runs.
  static Result<ChildProcess> start(const std::vector<std::string>& command,
                                    const Options& options);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // Asks without waiting.
  bool ended();
  // Once it has ended: its exit code, or 128 and the number of the signal that ended it.
  std::optional<int> exit_code() const { return exit_code_; }
  void signal(int number);
  // SIGTERM, then SIGKILL after `grace`.
  void stop(Duration grace);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}

  pid_t pid_;
  bool ended_ = false;
  std::optional<int> exit_code_;
};

// "spillway (pid 123)" for the process that listens on this local port; "another process" when it
// cannot be seen.
std::string port_holder(std::uint16_t port);

}  // namespace spillway
