#pragma once
// The flags that `serve` and `gateway` share, and the configuration with them laid over it.

#include <cstdint>
#include <string>
#include <vector>

#include "main/snapshot_files.h"
#include "policy/config.h"

namespace CLI {
class App;
}

namespace spillway {

struct ServeFlags {
  std::string config;
  std::string listen;
  std::string admin_listen;
  std::uint16_t engine_port = 0;
  int pin_level = -1;
  std::uint64_t seed = 0;
};

void add_gateway_flags(CLI::App& command, ServeFlags& flags);

// The command line that gives these flags again.
std::vector<std::string> words_of(const ServeFlags& flags);

// The files with the flags of the command line laid over them.
Result<SnapshotFiles> load_with_flags(const ServeFlags& flags);

// Adds who holds the port and which flag changes it, where the message says that it is taken.
std::string taken_port_hint(const std::string& message, const HostPort& at, const char* flag);

}  // namespace spillway
