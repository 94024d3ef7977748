// spillway engine: an engine of ours behind an OpenAI surface: embedded, or simulated.
#include <csignal>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <fmt/format.h>

#include "host/child_process.h"
#include "host/file_watch.h"
#include "main/commands.h"
#include "main/engine_inspect.h"
#include "serving/embedded_backend.h"
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
  EngineOptions engine;
  std::int64_t kv_mib = 256;
};

int fail(const std::string& message) {
  fmt::print(stderr, "error: {}\n", message);
  return 1;
}

Result<std::unique_ptr<Backend>> simulated(boost::asio::io_context& io, EngineFlags& flags) {
  const auto text = read_file(flags.profile);
  if (!text) {
    return text.error();
  }
  const auto profile = load_sim_profile(*text, flags.profile);
  if (!profile) {
    return profile.error();
  }
  if (flags.names.empty()) {
    flags.names = {"sim"};
  }
  return std::unique_ptr<Backend>(std::make_unique<SimulatedBackend>(io, *profile));
}

Result<std::unique_ptr<Backend>> embedded(boost::asio::io_context& io, EngineFlags& flags) {
  flags.engine.model_path = flags.model;
  flags.engine.kv_bytes = flags.kv_mib << 20U;
  auto engine = Engine::load(flags.engine);
  if (!engine) {
    return engine.error();
  }
  if (flags.names.empty()) {
    flags.names = {(*engine)->model_name()};
  }
  return std::unique_ptr<Backend>(
      std::make_unique<EmbeddedBackend>(io, *std::move(engine), std::random_device{}()));
}

int run_engine(EngineFlags& flags) {
  if (flags.model.empty() == flags.profile.empty()) {
    fmt::print(stderr, "error: give either --model FILE.gguf or --simulate PROFILE.yaml\n");
    return 2;
  }
  boost::asio::io_context io;
  auto backend = flags.model.empty() ? simulated(io, flags) : embedded(io, flags);
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

void add_inspection(CLI::App& command, const char* name, const char* what,
                    int (*run)(const EngineInspection&), int& exit_code) {
  const auto options = std::make_shared<EngineInspection>();
  CLI::App* sub = command.add_subcommand(name, what);
  sub->add_option("--model", options->model_path, "GGUF file")->required();
  sub->add_option("--in", options->input_path, "JSON to read; src/main/engine_inspect.h says what")
      ->required();
  sub->add_option("--out", options->output_path, "JSON to write")->required();
  sub->add_option("--threads", options->threads, "Threads")->capture_default_str();
  sub->add_option("--chat-family", options->chat_family,
                  "Chat format where the file's own is unknown: chatml, llama-3");
  sub->footer(fmt::format(
      "Example: spillway engine {} --model FILE.gguf --in IN.json --out OUT.json", name));
  sub->callback([options, run, &exit_code] { exit_code = run(*options); });
}

}  // namespace

void add_engine_command(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<EngineFlags>();
  CLI::App* command =
      app.add_subcommand("engine", "An engine behind an OpenAI surface: embedded or simulated");
  command->add_option("--model", flags->model,
                      "Embedded engine with this GGUF file (llama architecture)");
  command->add_option("--simulate", flags->profile, "Simulated engine with this profile (YAML)");
  command->add_option("--host", flags->host, "Address to listen on")->capture_default_str();
  command->add_option("--port", flags->port, "Port; 0 lets the system choose")
      ->capture_default_str();
  command->add_option("--name", flags->names,
                      "Model names it answers to (default: the file's own, or sim)");
  command->add_option("--kv-memory", flags->kv_mib, "MiB of KV cache, never exceeded")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--threads", flags->engine.threads, "Threads of the embedded engine")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--max-running", flags->engine.max_running, "Requests in one batch")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--prefill-chunk", flags->engine.prefill_chunk, "Prompt tokens in one step")
      ->check(CLI::Range(1, 8192))
      ->capture_default_str();
  command->add_option("--chat-family", flags->engine.chat_family,
                      "Chat format where the file's own is unknown: chatml, llama-3");
  command->footer("Example: spillway engine --model SmolLM2-135M-Instruct.Q4_1.gguf --port 8090");
  command->require_subcommand(0, 1);
  add_inspection(*command, "logits",
                 "What comes after each token, for comparisons (tools/parity/run)", engine_logits,
                 exit_code);
  add_inspection(*command, "tokenize", "Token ids of texts, for comparisons (tools/parity/run)",
                 engine_tokenize, exit_code);
  command->callback([flags, command, &exit_code] {
    if (command->get_subcommands().empty()) {
      exit_code = run_engine(*flags);
    }
  });
}

}  // namespace spillway
