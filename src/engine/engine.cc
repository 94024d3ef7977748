#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "engine/batcher.h"
#include "engine/kv_arena.h"
#include "engine/kv_pool.h"
#include "engine/loaded_model.h"
#include "engine/transformer.h"
#include "engine/worker_threads.h"

namespace spillway {
namespace {

struct Range {
  std::string_view name;
  int value;
  int most;
};

Status check_options(const EngineOptions& options) {
  const Range ranges[] = {{"threads", options.threads, 256},
                          {"max_running", options.max_running, 4096},
                          {"max_waiting", options.max_waiting, 1 << 20U},
                          {"prefill_chunk", options.prefill_chunk, 8192}};
  for (const Range& range : ranges) {
    if (range.value < 1 || range.value > range.most) {
      return Error{ErrorCode::kInvalid, fmt::format("{} is {}; 1 to {} are possible", range.name,
                                                    range.value, range.most)};
    }
  }
  return Ok{};
}

KvArena::Shape arena_shape(const LlamaShape& shape, std::int64_t bytes) {
  KvArena::Shape arena{.kv_heads = shape.kv_heads, .head_dim = shape.head_dim};
  arena.pages = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0)) / arena.page_bytes();
  return arena;
}

// Pages beyond a context for every sequence of a batch could never be used.
std::size_t useful_pages(const LlamaShape& shape, const EngineOptions& options) {
  const std::size_t pages = (shape.context + kPageSlots - 1) / kPageSlots * shape.layers;
  return pages * static_cast<std::size_t>(options.max_running);
}

}  // namespace

struct Engine::Parts {
  Parts(std::unique_ptr<const LoadedModel> its_model, const EngineOptions& options,
        KvArena::Shape arena_shape, std::size_t its_context)
      : model(std::move(its_model)),
        context(its_context),
        pool({.layers = model->shape().layers, .pages = arena_shape.pages}),
        arena(arena_shape),
        workers(static_cast<std::size_t>(options.threads)),
        batcher({.running = static_cast<std::size_t>(options.max_running),
                 .waiting = static_cast<std::size_t>(options.max_waiting),
                 .prefill_chunk = static_cast<std::size_t>(options.prefill_chunk),
                 .context = context},
                pool),
        transformer({.shape = model->shape(),
                     .weights = model->weights(),
                     .pool = pool,
                     .arena = arena,
                     .workers = workers,
                     .kernels = best_kernels()},
                    {.rows = static_cast<std::size_t>(options.max_running + options.prefill_chunk),
                     .logits = static_cast<std::size_t>(options.max_running),
                     .context = context}) {}

  std::unique_ptr<const LoadedModel> model;
  std::size_t context;
  KvPool pool;
  KvArena arena;
  WorkerThreads workers;
  Batcher batcher;
  Transformer transformer;
  SamplerScratch scratch;
  std::uint64_t steps = 0;
};

Engine::Engine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::load(const EngineOptions& options) {
  if (const Status checked = check_options(options); !checked) {
    return checked.error();
  }
  auto model = LoadedModel::load({.path = options.model_path, .chat_family = options.chat_family});
  if (!model) {
    return model.error();
  }
  return on_model(*std::move(model), options);
}

Result<std::unique_ptr<Engine>> Engine::on_model(std::unique_ptr<const LoadedModel> model,
                                                 const EngineOptions& options) {
  if (const Status checked = check_options(options); !checked) {
    return checked.error();
  }
  const LlamaShape& shape = model->shape();
  KvArena::Shape arena = arena_shape(shape, options.kv_bytes);
  arena.pages = std::min(arena.pages, useful_pages(shape, options));
  const std::size_t context = std::min(shape.context, arena.pages / shape.layers * kPageSlots);
  // A prompt token and a reply token are the least that make sense; a page a layer is the least
  // that holds them.
  if (context < 2) {
    return Error{ErrorCode::kTooLarge,
                 fmt::format("{} bytes for keys and values are too few: this model needs {} for "
                             "each {} tokens",
                             options.kv_bytes, arena.page_bytes() * shape.layers, kPageSlots)};
  }
  return std::unique_ptr<Engine>(
      new Engine(std::make_unique<Parts>(std::move(model), options, arena, context)));
}

const Tokenizer& Engine::tokenizer() const {
  return parts_->model->tokenizer();
}

const ChatFormat& Engine::chat_format() const {
  return parts_->model->chat_format();
}

int Engine::context_length() const {
  return static_cast<int>(parts_->context);
}

std::string Engine::model_name() const {
  return parts_->model->name();
}

Result<SequenceId> Engine::submit(Generation generation) {
  for (const TokenId token : generation.prompt) {
    if (token < 0 || static_cast<std::size_t>(token) >= parts_->model->shape().vocabulary) {
      return Error{ErrorCode::kInvalid, fmt::format("the prompt holds token {}; this model has {}",
                                                    token, parts_->model->shape().vocabulary)};
    }
  }
  return parts_->batcher.submit(std::move(generation));
}

void Engine::cancel(SequenceId sequence) {
  parts_->batcher.cancel(sequence);
}

bool Engine::step(std::vector<TokenEvent>& out) {
  const StepPlan& plan = parts_->batcher.plan();
  if (plan.rows.empty()) {
    return false;
  }
  parts_->transformer.run(plan.rows);
  parts_->batcher.rows_done();
  ++parts_->steps;
  for (std::size_t n = 0; n < plan.sampled.size(); ++n) {
    Sequence& sequence = *plan.sampled[n];
    const TokenId token = sequence.sampler.choose(parts_->transformer.logits(n), parts_->scratch);
    out.push_back(parts_->batcher.accept(sequence, token, tokenizer().is_end(token)));
  }
  return true;
}

EngineStats Engine::stats() const {
  const Batcher::Counters& counters = parts_->batcher.counters();
  return {.running = static_cast<int>(parts_->batcher.running()),
          .waiting = static_cast<int>(parts_->batcher.waiting()),
          .kv_pages_used = static_cast<std::int64_t>(parts_->pool.used_pages()),
          .kv_pages_total = static_cast<std::int64_t>(parts_->pool.total_pages()),
          .kv_capacity_tokens = static_cast<std::int64_t>(parts_->pool.capacity_tokens()),
          .page_tokens = static_cast<int>(kPageSlots),
          .preemptions = counters.preemptions,
          .prompt_tokens = counters.prompt_tokens,
          .generation_tokens = counters.generation_tokens,
          .steps = parts_->steps};
}

}  // namespace spillway
