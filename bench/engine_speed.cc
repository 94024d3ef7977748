// How fast the embedded engine is: decode alone, eight together, prefill of 512 tokens.
// Usage: engine_speed MODEL.gguf [THREADS]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "engine/engine.h"

namespace spillway {
namespace {

double seconds_of(const auto& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<TokenId> tokens(int count, int salt) {
  std::vector<TokenId> out;
  for (int i = 0; i < count; ++i) {
    out.push_back(100 + (i * 7919 + salt * 104729) % 40000);
  }
  return out;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Load {
  int requests = 1;
  int prompt = 16;
  int reply = 256;
};

// Prints tokens a second of the prompts and of the replies, by the clock and by processor time: the
// second shows what an idle machine would give where others use this one.
void measure(Engine& engine, const char* name, const Load& load) {
  std::vector<TokenEvent> events;
  for (int r = 0; r < load.requests; ++r) {
    const auto id = engine.submit({.prompt = tokens(load.prompt, r),
                                   .max_tokens = load.reply,
                                   .sampler = {.temperature = 0},
                                   .ignore_eos = true});
    if (!id) {
      fmt::print(stderr, "{}\n", id.error().message);
      std::exit(1);
    }
  }
  const double prompt_cpu = cpu_seconds();
  const std::uint64_t wanted =
      engine.stats().prompt_tokens +
      static_cast<std::uint64_t>(load.prompt) * static_cast<std::uint64_t>(load.requests);
  const double prefill = seconds_of([&] {
    while (engine.stats().prompt_tokens < wanted && engine.step(events)) {
    }
  });
  const std::size_t first = events.size();
  const double cpu = cpu_seconds();
  const double decode = seconds_of([&] {
    while (engine.step(events)) {
    }
  });
  const auto replies = static_cast<double>(events.size() - first);
  fmt::print(
      "{:<26} prompt {:7.1f} tokens/s, {:6.2f} ms  reply {:7.1f} tokens/s, {:6.2f} ms (processor "
      "time each)\n",
      name, load.prompt * load.requests / prefill,
      (cpu - prompt_cpu) * 1e3 / (load.prompt * load.requests), replies / decode,
      replies > 0 ? (cpu_seconds() - cpu) * 1e3 / replies : 0.0);
}

int run(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: engine_speed MODEL.gguf [THREADS]\n");
    return 2;
  }
  EngineOptions options{.model_path = argv[1], .kv_bytes = std::int64_t{512} << 20U};
  options.threads = argc > 2 ? std::atoi(argv[2]) : 2;
  std::unique_ptr<Engine> engine;
  const double load = seconds_of([&] {
    auto loaded = Engine::load(options);
    if (!loaded) {
      fmt::print(stderr, "{}\n", loaded.error().message);
      std::exit(1);
    }
    engine = *std::move(loaded);
  });
  fmt::print("{}: loaded in {:.2f} s, {} threads\n", engine->model_name(), load, options.threads);
  measure(*engine, "warm-up", {.reply = 32});
  measure(*engine, "one alone", {});
  measure(*engine, "one alone at 2048 tokens", {.prompt = 2048, .reply = 64});
  measure(*engine, "eight together", {.requests = 8});
  measure(*engine, "prompt of 512", {.prompt = 512, .reply = 1});
  return 0;
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
  return spillway::run(argc, argv);
}
