#include "main/serve_flags.h"

#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "host/child_process.h"

namespace spillway {

void add_gateway_flags(CLI::App& command, ServeFlags& flags) {
  command.add_option("--config", flags.config, "Configuration file")->required();
  command.add_option("--listen", flags.listen,
                     "Callers' address, HOST:PORT, instead of the file's");
  command.add_option("--admin-listen", flags.admin_listen,
                     "Operators' address, HOST:PORT, instead of the file's");
  command.add_option("--engine-port", flags.engine_port,
                     "Port of the engine on this host; replaces the first pool's replicas");
  command.add_option("--pin-level", flags.pin_level,
                     "Hold every pool at this level of the ladder (for experiments)");
  command.add_option("--seed", flags.seed, "Seed of ids and jitter (default: random)");
}

std::vector<std::string> words_of(const ServeFlags& flags) {
  std::vector<std::string> words = {"--config", flags.config};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) {
      words.insert(words.end(), {name, value});
    }
  };
  add("--listen", flags.listen);
  add("--admin-listen", flags.admin_listen);
  add("--engine-port", flags.engine_port == 0 ? "" : std::to_string(flags.engine_port));
  add("--pin-level", flags.pin_level < 0 ? "" : std::to_string(flags.pin_level));
  add("--seed", flags.seed == 0 ? "" : std::to_string(flags.seed));
  return words;
}

Result<SnapshotFiles> load_with_flags(const ServeFlags& flags) {
  auto files = read_snapshot(flags.config);
  if (!files) {
    return files.error();
  }
  Snapshot snapshot = *files->snapshot;
  const auto override_address = [](const std::string& text, HostPort& out,
                                   const char* flag) -> Status {
    if (text.empty()) {
      return Ok{};
    }
    const auto address = parse_host_port(text);
    if (!address) {
      return Error{ErrorCode::kInvalid, fmt::format("{} {}: give HOST:PORT", flag, text)};
    }
    out = *address;
    return Ok{};
  };
  if (Status status = override_address(flags.listen, snapshot.config.listen, "--listen"); !status) {
    return status.error();
  }
  if (Status status =
          override_address(flags.admin_listen, snapshot.config.admin_listen, "--admin-listen");
      !status) {
    return status.error();
  }
  if (flags.engine_port != 0) {
    snapshot.config.pools.at(0).replicas = {{{"127.0.0.1", flags.engine_port}}};
  }
  files->snapshot = std::make_shared<const Snapshot>(std::move(snapshot));
  return files;
}

std::string taken_port_hint(const std::string& message, const HostPort& at, const char* flag) {
  return message.find("in use") == std::string::npos
             ? message
             : fmt::format("{}: held by {}; choose another with {} HOST:PORT", message,
                           port_holder(at.port), flag);
}

}  // namespace spillway
