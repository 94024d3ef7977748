#pragma once
// A program started by us that ends with us: it gets SIGTERM when its owner is destroyed, SIGKILL
// when that does not help, and SIGKILL from the kernel should we die first. One owner thread, which
// must outlive it.

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/result.h"
#include "base/time.h"

namespace spillway {

class ChildProcess {
 public:
  // Its output goes where ours goes. `nice`: added to the priority of its processor time.
  static Result<ChildProcess> start(const std::vector<std::string>& command, int nice);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // Its wait status once it has ended; asks without waiting.
  bool ended();
  // SIGTERM, then SIGKILL after `grace`.
  void stop(Duration grace);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}

  pid_t pid_;
  bool ended_ = false;
};

// "spillway (pid 123)" for the process that listens on this local port; "another process" when it
// cannot be seen.
std::string port_holder(std::uint16_t port);

}  // namespace spillway
