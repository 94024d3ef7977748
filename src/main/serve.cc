// spillway serve: the gateway, and where asked for, an engine of ours beside it.
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <sys/resource.h>

#include "admin/operations.h"
#include "host/child_process.h"
#include "main/commands.h"
#include "main/snapshot_files.h"
#include "net/http_client.h"

namespace spillway {
namespace {

struct ServeFlags {
  std::string config;
  std::string listen;
  std::string admin_listen;
  std::string engine_model;
  std::string engine_profile;
  std::uint16_t engine_port = 0;
  int pin_level = -1;
  std::uint64_t seed = 0;
};

int fail(const std::string& message, int code) {
  fmt::print(stderr, "error: {}\n", message);
  return code;
}

// The files with the flags of the command line laid over them.
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

// Asks the engine's /health until it answers. The engine prints its own progress.
Status wait_for_engine(ChildProcess& engine, std::uint16_t port) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (std::chrono::steady_clock::now() < deadline) {
    if (engine.ended()) {
      return Error{ErrorCode::kUnavailable, "the engine ended; see its message above"};
    }
    boost::asio::io_context io;
    bool healthy = false;
    const HttpCallPtr call =
        fetch(io,
              {.address = fmt::format("127.0.0.1:{}", port),
               .path = "/health",
               .timeout = std::chrono::seconds(1)},
              4096, [&](Result<HttpReply> reply) { healthy = reply.ok() && reply->status == 200; });
    io.run();
    if (healthy) {
      return Ok{};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return Error{ErrorCode::kTimeout, "the engine did not become ready in five minutes"};
}

Result<std::optional<ChildProcess>> start_engine(const ServeFlags& flags, const Config& config) {
  if (flags.engine_model.empty() && flags.engine_profile.empty()) {
    return std::optional<ChildProcess>();
  }
  std::vector<std::string> command = {"/proc/self/exe", "engine",
                                      "--port",         std::to_string(flags.engine_port),
                                      "--name",         config.pools.at(0).models.at(0)};
  command.emplace_back(flags.engine_model.empty() ? "--simulate" : "--model");
  command.push_back(flags.engine_model.empty() ? flags.engine_profile : flags.engine_model);
  // The gateway must answer while the engine computes: the engine gets the lower weight.
  auto child = ChildProcess::start(command, 5);
  if (!child) {
    return child.error();
  }
  if (Status status = wait_for_engine(*child, flags.engine_port); !status) {
    return status.error();
  }
  return std::optional<ChildProcess>(*std::move(child));
}

std::string taken_port_hint(const std::string& message, const HostPort& at, const char* flag) {
  return message.find("in use") == std::string::npos
             ? message
             : fmt::format("{}: held by {}; choose another with {} HOST:PORT", message,
                           port_holder(at.port), flag);
}

void print_ready(const Config& config, std::uint16_t port, std::uint16_t admin_port) {
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  fmt::print(stderr,
             "\nSpillway is up.\n"
             "  callers    http://{0}:{1}/v1   (at most {2} connections, {3} descriptors)\n"
             "  operators  http://{4}:{5}/admin/v1/status  and  /metrics\n\n"
             "Try it:\n"
             "  curl -N http://{0}:{1}/v1/chat/completions -H 'content-type: application/json' \\\n"
             "    -d "
             "'{{\"model\":\"{6}\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":"
             "\"What is a dam for?\"}}]}}'\n\n",
             config.listen.host, port, config.limits.connections, descriptors.rlim_cur,
             config.admin_listen.host, admin_port, config.pools.at(0).models.at(0));
}

int serve(const ServeFlags& flags) {
  auto files = load_with_flags(flags);
  if (!files) {
    return fail(files.error().message, 1);
  }
  for (const Finding& warning : files->warnings) {
    fmt::print(stderr, "warning: {}\n", to_text(warning));
  }
  const Config& config = files->snapshot->config;
  auto engine = start_engine(flags, config);
  if (!engine) {
    return fail(engine.error().message, 1);
  }
  boost::asio::io_context io;
  RecordQueue records;
  const std::uint64_t seed =
      flags.seed != 0 ? flags.seed : std::random_device{}() * 0x100000001ULL + 1;
  Gateway gateway(
      io, files->snapshot, records,
      {.seed = seed,
       .pin_level = flags.pin_level >= 0 ? std::optional(flags.pin_level) : std::nullopt});
  int interruptions = 0;
  Operations operations(
      gateway, records, files->snapshot,
      {.load = [flags]() -> Result<std::shared_ptr<const Snapshot>> {
         auto again = load_with_flags(flags);
         if (!again) {
           return again.error();
         }
         return again->snapshot;
       },
       .watched_files = files->paths,
       .interrupted =
           [&] {
             if (++interruptions > 1) {
               io.stop();
               return;
             }
             fmt::print(stderr,
                        "\nStopping: streams may finish for 10 s; again to stop at once.\n");
             boost::asio::post(
                 io, [&] { gateway.drain(std::chrono::seconds(10), [&] { io.stop(); }); });
           }});
  if (Status status = gateway.listen(); !status) {
    return fail(taken_port_hint(status.error().message, config.listen, "--listen"), 1);
  }
  if (Status status = operations.start(); !status) {
    return fail(taken_port_hint(status.error().message, config.admin_listen, "--admin-listen"), 1);
  }
  print_ready(config, gateway.port(), operations.port());
  io.run();
  operations.stop();
  return 0;
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = app.add_subcommand("serve", "The gateway in front of inference engines");
  command->add_option("--config", flags->config, "Configuration file")->required();
  command->add_option("--listen", flags->listen,
                      "Callers' address, HOST:PORT, instead of the file's");
  command->add_option("--admin-listen", flags->admin_listen,
                      "Operators' address, HOST:PORT, instead of the file's");
  command->add_option("--with-engine", flags->engine_model,
                      "Start the embedded engine with this GGUF file too");
  command->add_option("--with-simulated-engine", flags->engine_profile,
                      "Start a simulated engine with this profile too");
  command->add_option("--engine-port", flags->engine_port,
                      "Port of the engine that is started; replaces the first pool's replicas");
  command->add_option("--pin-level", flags->pin_level,
                      "Hold every pool at this level of the ladder (for experiments)");
  command->add_option("--seed", flags->seed, "Seed of ids and jitter (default: random)");
  command->footer(
      "Example: spillway serve --config examples/spillway.yaml\nSIGHUP or a changed file reloads; "
      "SIGTERM drains.");
  command->callback([flags, &exit_code] { exit_code = serve(*flags); });
}

}  // namespace spillway
