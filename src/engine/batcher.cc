#include "engine/batcher.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"

namespace spillway {

Batcher::Batcher(const Limits& limits, KvPool& pool) : limits_(limits), pool_(pool) {
  CHECK(limits.running >= 1 && limits.prefill_chunk >= 1);
  CHECK(limits.context <= pool.capacity_tokens());
}

Result<SequenceId> Batcher::submit(Generation generation) {
  if (generation.prompt.empty()) {
    return Error{ErrorCode::kInvalid, "the prompt has no tokens"};
  }
  if (generation.max_tokens < 1) {
    return Error{ErrorCode::kInvalid,
                 fmt::format("max_tokens is {}; at least 1 is needed", generation.max_tokens)};
  }
  if (const Status options = check_sampler_options(generation.sampler); !options) {
    return options.error();
  }
  const std::size_t total =
      generation.prompt.size() + static_cast<std::size_t>(generation.max_tokens);
  if (total > limits_.context) {
    return Error{ErrorCode::kTooLarge,
                 fmt::format("{} prompt tokens and {} for the reply are more than this engine's "
                             "context of {} tokens; shorten the prompt or max_tokens",
                             generation.prompt.size(), generation.max_tokens, limits_.context)};
  }
  if (waiting_.size() >= limits_.waiting) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{} requests are waiting already; try again later", waiting_.size())};
  }
  auto sequence =
      std::make_unique<Sequence>(next_id_++, std::move(generation), pool_.empty_table());
  const SequenceId id = sequence->id;
  const Key key = key_of(*sequence);
  waiting_.emplace(key, std::move(sequence));
  return id;
}

void Batcher::cancel(SequenceId id) {
  for (Queue* queue : {&running_, &waiting_}) {
    const auto found =
        std::ranges::find_if(*queue, [id](const auto& entry) { return entry.second->id == id; });
    if (found != queue->end()) {
      pool_.release(found->second->cache);
      queue->erase(found);
      return;
    }
  }
}

const StepPlan& Batcher::plan() {
  plan_.rows.clear();
  plan_.sampled.clear();
  std::size_t budget = limits_.prefill_chunk;
  // A sequence may be preempted for another one's sake while this goes on.
  const std::vector<Sequence*> sequences = running_in_order();
  for (Sequence* sequence : sequences) {
    sequence->planned = 0;
  }
  for (Sequence* sequence : sequences) {
    if (sequence->running && sequence->remaining() == 1) {
      reserve(*sequence, 1);
    }
  }
  for (Sequence* sequence : sequences) {
    if (sequence->running && sequence->remaining() > 1 && budget > 0) {
      const std::size_t rows = std::min(budget, sequence->remaining());
      budget -= reserve(*sequence, rows) ? rows : 0;
    }
  }
  admit(budget);
  for (const auto& [key, sequence] : running_) {
    add_rows(*sequence);
  }
  return plan_;
}

std::vector<Sequence*> Batcher::running_in_order() const {
  std::vector<Sequence*> out;
  for (const auto& [key, sequence] : running_) {
    out.push_back(sequence.get());
  }
  return out;
}

// Takes the pages of that many more rows, preempting others for it; false when the sequence itself
// turned out to be the least important.
bool Batcher::reserve(Sequence& sequence, std::size_t rows) {
  while (!pool_.extend(sequence.cache, static_cast<std::int32_t>(sequence.computed), rows)) {
    Sequence& victim = least_important();
    preempt(victim);
    if (&victim == &sequence) {
      return false;
    }
  }
  sequence.planned = rows;
  return true;
}

Sequence& Batcher::least_important() const {
  CHECK(!running_.empty());
  Sequence* worst = nullptr;
  for (const auto& [key, sequence] : running_) {
    const bool worse = worst == nullptr ||
                       sequence->generation.priority > worst->generation.priority ||
                       (sequence->generation.priority == worst->generation.priority &&
                        sequence->computed <= worst->computed);
    worst = worse ? sequence.get() : worst;
  }
  return *worst;
}

void Batcher::preempt(Sequence& sequence) {
  pool_.release(sequence.cache);
  sequence.computed = 0;
  sequence.planned = 0;
  sequence.running = false;
  ++counters_.preemptions;
  waiting_.insert(running_.extract(key_of(sequence)));
}

void Batcher::admit(std::size_t budget) {
  while (budget > 0 && running_.size() < limits_.running && !waiting_.empty()) {
    Sequence& next = *waiting_.begin()->second;
    if (!fits_now(next)) {
      return;
    }
    next.running = true;
    running_.insert(waiting_.extract(waiting_.begin()));
    const std::size_t rows = std::min(budget, next.remaining());
    CHECK(reserve(next, rows));
    budget -= rows;
  }
}

// Room for all its tokens beside what the running ones are still to take: their prompts, and a page
// in each layer to grow. Else it would only come in to be preempted.
bool Batcher::fits_now(const Sequence& sequence) const {
  if (running_.empty()) {
    return true;
  }
  std::size_t wanted = pool_.pages_for(sequence.cache, sequence.tokens.size() + 1);
  for (const auto& [key, other] : running_) {
    const std::size_t to_come = other->remaining() - other->planned;
    wanted += pool_.pages_for(other->cache, to_come) + other->cache.layers.size();
  }
  return wanted <= pool_.free_pages();
}

void Batcher::add_rows(Sequence& sequence) {
  for (std::size_t i = 0; i < sequence.planned; ++i) {
    const std::size_t position = sequence.computed + i;
    const bool last = position + 1 == sequence.tokens.size();
    plan_.rows.push_back({.token = sequence.tokens[position],
                          .position = static_cast<std::int32_t>(position),
                          .cache = &sequence.cache,
                          .from_end = sequence.planned - i,
                          .wants_logits = last});
    if (last) {
      plan_.sampled.push_back(&sequence);
    }
  }
}

void Batcher::rows_done() {
  for (const auto& [key, sequence] : running_) {
    sequence->computed += sequence->planned;
    sequence->planned = 0;
    const std::size_t prompt = std::min(sequence->computed, sequence->prompt_tokens);
    counters_.prompt_tokens += prompt - std::min(prompt, sequence->counted);
    sequence->counted = std::max(sequence->counted, prompt);
  }
}

TokenEvent Batcher::accept(Sequence& sequence, TokenId token, bool is_end) {
  TokenEvent event{.sequence = sequence.id, .token = token};
  sequence.tokens.push_back(token);
  ++counters_.generation_tokens;
  const std::size_t generated = sequence.tokens.size() - sequence.prompt_tokens;
  if (is_end && !sequence.generation.ignore_eos) {
    event.is_end = true;
    event.finish = FinishReason::kStop;
  } else if (generated >= static_cast<std::size_t>(sequence.generation.max_tokens)) {
    event.finish = FinishReason::kLength;
  }
  if (event.finish) {
    pool_.release(sequence.cache);
    running_.erase(key_of(sequence));
  }
  return event;
}

}  // namespace spillway
