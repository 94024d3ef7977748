// spillway engine: an engine of ours behind an OpenAI surface.
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <fmt/format.h>

#include "host/child_process.h"
#include "host/file_watch.h"
#include "main/commands.h"
#include "serving/openai_server.h"
#include "serving/simulated_backend.h"

namespace spillway {
namespace {

struct EngineFlags {
  std::string model;
  std::string profile;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8090;
  std::vector<std::string> names;
};

int fail(const std::string& message) {
  fmt::print(stderr, "error: {}\n", message);
  return 1;
}

Result<std::unique_ptr<Backend>> make_backend(boost::asio::io_context& io,
                                              const EngineFlags& flags) {
  const auto text = read_file(flags.profile);
  if (!text) {
    return text.error();
  }
  const auto profile = load_sim_profile(*text, flags.profile);
  if (!profile) {
    return profile.error();
  }
  return std::unique_ptr<Backend>(std::make_unique<SimulatedBackend>(io, *profile));
}

int run_engine(const EngineFlags& flags) {
  boost::asio::io_context io;
  auto backend = make_backend(io, flags);
  if (!backend) {
    return fail(backend.error().message);
  }
  OpenAiServer::Options options{.host = flags.host, .port = flags.port, .models = flags.names};
  options.obey_faults = !flags.profile.empty();
  auto server = OpenAiServer::open(io, std::move(options), *std::move(backend));
  if (!server) {
    std::string message = server.error().message;
    if (message.find("in use") != std::string::npos) {
      message += ": held by " + port_holder(flags.port) + "; choose another with --port N";
    }
    return fail(message);
  }
  boost::asio::signal_set signals(io, SIGINT, SIGTERM);
  signals.async_wait([&](boost::system::error_code, int) {
    (*server)->stop();
    io.stop();
  });
  fmt::print(stderr, "engine listening on http://{}:{} model={}\n", flags.host, (*server)->port(),
             flags.names.front());
  io.run();
  return 0;
}

}  // namespace

void add_engine_command(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<EngineFlags>();
  CLI::App* command = app.add_subcommand("engine", "An engine behind an OpenAI surface: simulated");
  auto* profile = command->add_option("--simulate", flags->profile,
                                      "Simulated engine with this profile (YAML)");
  profile->required();
  command->add_option("--host", flags->host, "Address to listen on")->capture_default_str();
  command->add_option("--port", flags->port, "Port; 0 lets the system choose")
      ->capture_default_str();
  command->add_option("--name", flags->names, "Model names it answers to (default: model)");
  command->footer("Example: spillway engine --simulate examples/simulate/engine.yaml --port 8090");
  command->callback([flags, &exit_code] {
    if (flags->names.empty()) {
      flags->names = {"model"};
    }
    exit_code = run_engine(*flags);
  });
}

}  // namespace spillway
