// spillway gateway: the process that serves callers. `serve` starts it and keeps it running.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <sys/resource.h>

#include "admin/operations.h"
#include "host/listening_sockets.h"
#include "main/commands.h"
#include "main/serve_flags.h"

namespace spillway {
namespace {

int fail(const std::string& message, int code) {
  fmt::print(stderr, "error: {}\n", message);
  return code;
}

void print_ready(const Config& config, std::uint16_t port, std::uint16_t admin_port,
                 std::size_t connections_max) {
  const auto wanted = static_cast<std::size_t>(config.limits.connections);
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  fmt::print(stderr,
             "\nSpillway is up.\n"
             "  callers    http://{0}:{1}/v1   (at most {2} streams at once; {3} descriptors)\n"
             "  operators  http://{4}:{5}/admin/v1/status  and  /metrics\n\n"
             "Try it:\n"
             "  curl -N http://{0}:{1}/v1/chat/completions -H 'content-type: application/json' \\\n"
             "    -d "
             "'{{\"model\":\"{6}\",\"stream\":true,\"temperature\":0,\"messages\":[{{\"role\":"
             "\"user\",\"content\":"
             "\"What is a dam for?\"}}]}}'\n\n",
             config.listen.host, port, std::min(wanted, connections_max), descriptors.rlim_cur,
             config.admin_listen.host, admin_port, config.pools.at(0).models.at(0));
}

// As many as the descriptors allow: one for the caller, one for its engine, some for ourselves.
std::size_t connections_of_descriptors() {
  constexpr rlim_t kOurs = 100;
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  descriptors.rlim_cur = descriptors.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &descriptors);
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  return static_cast<std::size_t>(descriptors.rlim_cur > 2 * kOurs
                                      ? (descriptors.rlim_cur - kOurs) / 2
                                      : descriptors.rlim_cur / 4);
}

int run_gateway(const ServeFlags& flags) {
  std::map<std::string, int> sockets = inherited_sockets();
  const auto socket_named = [&](const char* name) {
    const auto it = sockets.find(name);
    return it == sockets.end() ? -1 : it->second;
  };
  auto files = load_with_flags(flags);
  if (!files) {
    return fail(files.error().message, 1);
  }
  for (const Finding& warning : files->warnings) {
    fmt::print(stderr, "warning: {}\n", to_text(warning));
  }
  const Config& config = files->snapshot->config;
  boost::asio::io_context io;
  RecordQueue records;
  const std::uint64_t seed =
      flags.seed != 0 ? flags.seed : std::random_device{}() * 0x100000001ULL + 1;
  const std::size_t connections_max = connections_of_descriptors();
  Gateway gateway(
      io, files->snapshot, records,
      {.seed = seed,
       .pin_level = flags.pin_level >= 0 ? std::optional(flags.pin_level) : std::nullopt,
       .connections_max = connections_max,
       .listening_socket = socket_named("callers")});
  int interruptions = 0;
  const auto drain = [&] {
    if (++interruptions > 1) {
      io.stop();
      return;
    }
    boost::asio::post(io, [&] { gateway.drain([&] { io.stop(); }); });
  };
  Operations operations(gateway, records, files->snapshot,
                        {.load = [flags]() -> Result<std::shared_ptr<const Snapshot>> {
                           auto again = load_with_flags(flags);
                           if (!again) {
                             return again.error();
                           }
                           return again->snapshot;
                         },
                         .watched_files = files->paths,
                         .interrupted = drain,
                         .replaced = drain,
                         .listening_socket = socket_named("operators")});
  if (Status status = gateway.listen(); !status) {
    return fail(taken_port_hint(status.error().message, config.listen, "--listen"), 1);
  }
  if (Status status = operations.start(); !status) {
    return fail(taken_port_hint(status.error().message, config.admin_listen, "--admin-listen"), 1);
  }
  print_ready(config, gateway.port(), operations.port(), connections_max);
  io.run();
  operations.stop();
  return 0;
}

}  // namespace

void add_gateway_command(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = app.add_subcommand(
      "gateway", "The gateway alone, not kept running by `serve`; for systemd or a container");
  add_gateway_flags(*command, *flags);
  command->footer(
      "Example: spillway gateway --config examples/simulate/spillway.yaml\nTakes listening sockets "
      "from systemd (LISTEN_FDS; names: callers, operators). SIGHUP or a changed file reloads; "
      "SIGTERM drains.");
  command->callback([flags, &exit_code] { exit_code = run_gateway(*flags); });
}

}  // namespace spillway
