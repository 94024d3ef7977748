#include "engine/teacher.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/kv_arena.h"
#include "engine/kv_pool.h"
#include "engine/loaded_model.h"
#include "engine/transformer.h"
#include "engine/worker_threads.h"

namespace spillway {

struct Teacher::Parts {
  Parts(const LoadedModel& its_model, std::size_t threads, std::size_t its_chunk)
      : model(its_model), chunk(its_chunk), workers(threads) {}

  const LoadedModel& model;
  std::size_t chunk;
  WorkerThreads workers;
};

Teacher::Teacher(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Teacher::Teacher(Teacher&&) noexcept = default;
Teacher& Teacher::operator=(Teacher&&) noexcept = default;
Teacher::~Teacher() = default;

Result<Teacher> Teacher::create(const LoadedModel& model, const Options& options) {
  if (options.threads < 1 || options.threads > 256 || options.chunk < 1 || options.chunk > 8192) {
    return Error{ErrorCode::kInvalid,
                 fmt::format("{} threads and chunks of {}: 1 to 256 and 1 to 8192 are possible",
                             options.threads, options.chunk)};
  }
  return Teacher(std::make_unique<Parts>(model, static_cast<std::size_t>(options.threads),
                                         static_cast<std::size_t>(options.chunk)));
}

Status Teacher::logits_of(std::span<const TokenId> tokens, const Callback& callback) {
  const LlamaShape& shape = parts_->model.shape();
  if (tokens.empty() || tokens.size() > shape.context) {
    return Error{ErrorCode::kTooLarge,
                 fmt::format("{} tokens; 1 to {} are possible", tokens.size(), shape.context)};
  }
  for (const TokenId token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= shape.vocabulary) {
      return Error{ErrorCode::kInvalid,
                   fmt::format("token {} is not one of the model's {}", token, shape.vocabulary)};
    }
  }
  const std::size_t pages = (tokens.size() + kPageSlots - 1) / kPageSlots * shape.layers;
  KvPool pool({.layers = shape.layers, .pages = pages});
  KvArena arena({.pages = pages, .kv_heads = shape.kv_heads, .head_dim = shape.head_dim});
  const std::size_t chunk = std::min(parts_->chunk, tokens.size());
  Transformer transformer({.shape = shape,
                           .weights = parts_->model.weights(),
                           .pool = pool,
                           .arena = arena,
                           .workers = parts_->workers,
                           .kernels = best_kernels()},
                          {.rows = chunk, .logits = chunk, .context = tokens.size()});
  CacheTable cache = pool.empty_table();
  for (std::size_t first = 0; first < tokens.size(); first += chunk) {
    const std::size_t count = std::min(chunk, tokens.size() - first);
    CHECK(pool.extend(cache, static_cast<std::int32_t>(first), count));
    std::vector<BatchRow> rows;
    for (std::size_t i = 0; i < count; ++i) {
      rows.push_back({.token = tokens[first + i],
                      .position = static_cast<std::int32_t>(first + i),
                      .cache = &cache,
                      .from_end = count - i,
                      .wants_logits = true});
    }
    transformer.run(rows);
    for (std::size_t i = 0; i < count; ++i) {
      callback(first + i, transformer.logits(i));
    }
  }
  return Ok{};
}

}  // namespace spillway
