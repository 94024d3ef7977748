// spillway serve: the gateway, and where asked for, an engine of ours beside it, kept running.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <fmt/format.h>

#include "host/listening_sockets.h"
#include "main/commands.h"
#include "main/serve_flags.h"
#include "main/supervisor.h"
#include "net/http_client.h"

namespace spillway {
namespace {

struct EngineFlags {
  std::string model;
  std::string profile;

  bool wanted() const { return !model.empty() || !profile.empty(); }
};

int fail(const std::string& message, int code) {
  fmt::print(stderr, "error: {}\n", message);
  return code;
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

Supervisor::Program engine_program(const EngineFlags& engine, std::uint16_t port,
                                   const std::string& name) {
  const bool simulated = engine.model.empty();
  // The gateway must answer while the engine computes: the engine gets the lower weight.
  return {
      .name = "the engine",
      .command = {"/proc/self/exe", "engine", "--port", std::to_string(port), "--name", name,
                  simulated ? "--simulate" : "--model", simulated ? engine.profile : engine.model},
      .options = {.nice = 5}};
}

Supervisor::Program gateway_program(const ServeFlags& flags, std::map<std::string, int> sockets) {
  Supervisor::Program program{.name = "the gateway", .command = {"/proc/self/exe", "gateway"}};
  const std::vector<std::string> words = words_of(flags);
  program.command.insert(program.command.end(), words.begin(), words.end());
  program.options.sockets = std::move(sockets);
  return program;
}

// The sockets we were given, and for those we were not, our own.
Result<std::map<std::string, int>> open_sockets(const Config& config) {
  std::map<std::string, int> sockets = inherited_sockets();
  for (const auto& [name, at, flag] :
       {std::tuple{"callers", &config.listen, "--listen"},
        std::tuple{"operators", &config.admin_listen, "--admin-listen"}}) {
    if (sockets.contains(name)) {
      continue;
    }
    auto socket = open_listening_socket(at->host, at->port);
    if (!socket) {
      return Error{socket.error().code, taken_port_hint(socket.error().message, *at, flag)};
    }
    sockets.emplace(name, *socket);
  }
  return sockets;
}

int serve(const ServeFlags& flags, const EngineFlags& engine) {
  auto files = load_with_flags(flags);
  if (!files) {
    return fail(files.error().message, 1);
  }
  if (engine.wanted() && flags.engine_port == 0) {
    return fail("--with-engine and --with-simulated-engine need --engine-port", 2);
  }
  const Config& config = files->snapshot->config;
  auto sockets = open_sockets(config);
  if (!sockets) {
    return fail(sockets.error().message, 1);
  }
  std::optional<Supervisor::Program> beside;
  if (engine.wanted()) {
    beside = engine_program(engine, flags.engine_port, config.pools.at(0).models.at(0));
  }
  Supervisor supervisor(gateway_program(flags, *std::move(sockets)), std::move(beside));
  std::uint16_t port = flags.engine_port;
  return supervisor.run(
      [](ChildProcess& child, void* context) {
        const Status status = wait_for_engine(child, *static_cast<std::uint16_t*>(context));
        if (!status) {
          fail(status.error().message, 1);
        }
        return status.ok();
      },
      &port);
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<ServeFlags>();
  const auto engine = std::make_shared<EngineFlags>();
  CLI::App* command =
      app.add_subcommand("serve", "The gateway in front of inference engines, kept running");
  add_gateway_flags(*command, *flags);
  command->add_option("--with-engine", engine->model,
                      "Start the embedded engine with this GGUF file too");
  command->add_option("--with-simulated-engine", engine->profile,
                      "Start a simulated engine with this profile too");
  command->footer(
      "Example: spillway serve --config examples/simulate/spillway.yaml\nSIGHUP or a changed file "
      "reloads; SIGTERM drains; SIGUSR2 replaces the gateway and refuses nobody.");
  command->callback([flags, engine, &exit_code] { exit_code = serve(*flags, *engine); });
}

}  // namespace spillway
