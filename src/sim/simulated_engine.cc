#include "sim/simulated_engine.h"

#include <algorithm>

namespace spillway {

bool SimulatedEngine::submit(Instant now, const SimRequest& request) {
  if (blocks_for(request.prompt_tokens + request.output_tokens) > profile_.kv_blocks) {
    return false;
  }
  Sequence sequence{.request = request, .arrival = arrivals_++};
  waiting_keys_[request.id] = key_of(sequence);
  waiting_.emplace(key_of(sequence), sequence);
  if (!step_ends_ && !hung_) {
    plan_step(now);
  }
  return true;
}

void SimulatedEngine::cancel(SimId id) {
  if (const auto it = waiting_keys_.find(id); it != waiting_keys_.end()) {
    waiting_.erase(it->second);
    waiting_keys_.erase(it);
    return;
  }
  for (Sequence& sequence : running_) {
    if (sequence.request.id == id) {
      sequence.cancelled = true;
    }
  }
}

void SimulatedEngine::advance(Instant now, std::vector<SimToken>& tokens) {
  while (step_ends_ && *step_ends_ <= now) {
    const Instant end = *step_ends_;
    end_step(tokens);
    plan_step(end);
  }
}

std::optional<Instant> SimulatedEngine::next_event() const {
  return step_ends_;
}

void SimulatedEngine::hang(Instant now) {
  if (!hung_) {
    hung_ = step_ends_ && *step_ends_ > now ? *step_ends_ - now : Duration{};
    step_ends_.reset();
  }
}

void SimulatedEngine::go_on(Instant now) {
  if (!hung_) {
    return;
  }
  const Duration left = *hung_;
  hung_.reset();
  if (running_.empty()) {
    plan_step(now);
  } else {
    step_ends_ = now + left;
  }
}

SimStats SimulatedEngine::stats() const {
  SimStats stats = totals_;
  stats.running = static_cast<int>(running_.size());
  stats.waiting = static_cast<int>(waiting_.size());
  stats.kv_usage = static_cast<double>(blocks_used_) / static_cast<double>(profile_.kv_blocks);
  return stats;
}

void SimulatedEngine::drop_cancelled() {
  std::erase_if(running_, [&](const Sequence& sequence) {
    if (sequence.cancelled) {
      blocks_used_ -= sequence.blocks;
    }
    return sequence.cancelled;
  });
}

// Takes the blocks for so many tokens of this sequence; others that are worth less give theirs up.
// False when even that was not enough: the sequence itself has to wait.
bool SimulatedEngine::reserve(std::size_t index, std::int64_t tokens) {
  const std::int64_t wanted = blocks_for(tokens) - running_[index].blocks;
  while (wanted > profile_.kv_blocks - blocks_used_) {
    std::optional<std::size_t> victim;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      const auto worth = [&](const Sequence& s) { return std::pair(-key_of(s).first, s.computed); };
      if (running_[i].blocks > 0 && (!victim || worth(running_[i]) < worth(running_[*victim]))) {
        victim = i;
      }
    }
    if (!victim || *victim == index) {
      return false;
    }
    preempt(*victim);
  }
  if (wanted > 0) {
    running_[index].blocks += wanted;
    blocks_used_ += wanted;
  }
  return true;
}

// Marks only; plan_step moves it back to the queue when the plan stands.
void SimulatedEngine::preempt(std::size_t index) {
  Sequence& sequence = running_[index];
  ++totals_.preemptions;
  totals_.recomputed_tokens += static_cast<std::uint64_t>(sequence.computed);
  blocks_used_ -= sequence.blocks;
  sequence.blocks = 0;
  sequence.computed = 0;
  sequence.chunk = 0;
}

void SimulatedEngine::plan_prefill(std::size_t index, std::int64_t& budget) {
  const std::int64_t chunk = std::min(budget, target(running_[index]) - running_[index].computed);
  if (chunk > 0 && reserve(index, running_[index].computed + chunk)) {
    running_[index].chunk = chunk;
    budget -= chunk;
  }
}

void SimulatedEngine::admit_waiting(std::int64_t& budget) {
  while (budget > 0 && !waiting_.empty() &&
         running_.size() < static_cast<std::size_t>(profile_.max_running)) {
    Sequence next = waiting_.begin()->second;
    // A new one takes free blocks only; it pushes nobody out.
    if (blocks_for(std::min(budget, target(next))) > profile_.kv_blocks - blocks_used_) {
      return;
    }
    waiting_keys_.erase(next.request.id);
    waiting_.erase(waiting_.begin());
    running_.push_back(next);
    plan_prefill(running_.size() - 1, budget);
  }
}

void SimulatedEngine::plan_step(Instant now) {
  drop_cancelled();
  std::int64_t budget = profile_.batched_tokens_max;
  const std::uint64_t preemptions_before = totals_.preemptions;
  // Decodes first: a long prompt must not stall them. An index stays valid: nothing is moved while
  // planning.
  for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
    running_[i].chunk = 0;
    if (decoding(running_[i])) {
      if (reserve(i, running_[i].computed + 1)) {
        running_[i].chunk = 1;
        --budget;
      } else {
        preempt(i);
      }
    }
  }
  for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
    if (running_[i].blocks > 0 && !decoding(running_[i])) {
      plan_prefill(i, budget);
    }
  }
  std::erase_if(running_, [&](const Sequence& sequence) {
    if (sequence.blocks > 0) {
      return false;
    }
    waiting_keys_[sequence.request.id] = key_of(sequence);
    waiting_.emplace(key_of(sequence), sequence);
    return true;
  });
  if (totals_.preemptions == preemptions_before) {
    admit_waiting(budget);
  }
  if (running_.empty()) {
    step_ends_.reset();
    return;
  }
  std::int64_t prefill = 0;
  std::int64_t decodes = 0;
  std::int64_t kv = 0;
  for (const Sequence& sequence : running_) {
    (decoding(sequence) ? decodes : prefill) += sequence.chunk;
    kv += sequence.computed;
  }
  step_ends_ = now + profile_.step_base + prefill * profile_.per_prefill_token +
               decodes * profile_.per_decode + kv * profile_.per_kv_kilotoken / 1000;
}

void SimulatedEngine::end_step(std::vector<SimToken>& tokens) {
  const Instant end = *step_ends_;
  std::erase_if(running_, [&](Sequence& sequence) {
    if (sequence.cancelled) {
      blocks_used_ -= sequence.blocks;
      return true;
    }
    sequence.computed += sequence.chunk;
    sequence.chunk = 0;
    if (sequence.computed < target(sequence)) {
      return false;
    }
    if (!sequence.counted) {
      sequence.counted = true;
      totals_.prompt_tokens += static_cast<std::uint64_t>(sequence.request.prompt_tokens);
    }
    // The last position computed gives the next token.
    ++totals_.generation_tokens;
    const bool last = sequence.emitted + 1 >= sequence.request.output_tokens;
    tokens.push_back(
        {.id = sequence.request.id, .at = end, .index = sequence.emitted, .last = last});
    ++sequence.emitted;
    if (last) {
      blocks_used_ -= sequence.blocks;
    }
    return last;
  });
}

}  // namespace spillway
