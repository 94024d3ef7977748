#pragma once
// Decides what runs in the next step: every sequence that decodes gives one row, and prompts fill
// one chunk, so that a long prompt does not stall the others. All pages of a step are reserved
// before it runs. When they run out, the least important sequence (largest priority number, then
// least computed) gives its pages back and is computed again later. Waiting ones are taken by
// priority, then arrival. Bookkeeping only, no tensors. One thread owns it.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/batch_row.h"
#include "engine/engine.h"
#include "engine/kv_pool.h"
#include "engine/sampler.h"

namespace spillway {

struct Sequence {
  Sequence(SequenceId its_id, Generation its_generation, CacheTable its_cache)
      : id(its_id),
        generation(std::move(its_generation)),
        tokens(std::move(generation.prompt)),
        prompt_tokens(tokens.size()),
        cache(std::move(its_cache)),
        sampler(generation.sampler) {}

  std::size_t remaining() const { return tokens.size() - computed; }

  SequenceId id;
  Generation generation;        // its prompt has moved to tokens
  std::vector<TokenId> tokens;  // prompt, then what was generated
  std::size_t prompt_tokens;
  std::size_t computed = 0;  // tokens whose keys and values are in the cache
  std::size_t counted = 0;   // prompt tokens that the statistics know
  std::size_t planned = 0;   // rows in the step being planned or run
  bool running = false;
  CacheTable cache;
  Sampler sampler;
};

struct StepPlan {
  std::vector<BatchRow> rows;
  std::vector<Sequence*> sampled;  // whose row is the n-th that wants logits
};

class Batcher {
 public:
  struct Limits {
    std::size_t running = 1;
    std::size_t waiting = 1;
    std::size_t prefill_chunk = 1;
    std::size_t context = 1;  // tokens of one sequence; at most the pool's capacity
  };
  struct Counters {
    std::uint64_t preemptions = 0;
    std::uint64_t prompt_tokens = 0;
    std::uint64_t generation_tokens = 0;
  };

  // The pool outlives it.
  Batcher(const Limits& limits, KvPool& pool);

  // See Engine::submit, but for the tokens' range, which only a model knows.
  Result<SequenceId> submit(Generation generation);

  void cancel(SequenceId id);

  // The next step, its pages reserved. Empty when there is nothing to do; else it makes progress.
  // Valid until the next call of anything but rows_done() and accept().
  const StepPlan& plan();

  // The planned rows were computed.
  void rows_done();

  // What was chosen after a sampled row; call it after rows_done(). A sequence that it finishes is
  // gone afterwards.
  TokenEvent accept(Sequence& sequence, TokenId token, bool is_end);

  std::size_t running() const { return running_.size(); }
  std::size_t waiting() const { return waiting_.size(); }
  const Counters& counters() const { return counters_; }

 private:
  using Key = std::pair<int, SequenceId>;  // priority, arrival
  using Queue = std::map<Key, std::unique_ptr<Sequence>>;

  static Key key_of(const Sequence& sequence) {
    return {sequence.generation.priority, sequence.id};
  }
  std::vector<Sequence*> running_in_order() const;
  bool reserve(Sequence& sequence, std::size_t rows);
  Sequence& least_important() const;
  void preempt(Sequence& sequence);
  void admit(std::size_t budget);
  bool fits_now(const Sequence& sequence) const;
  void add_rows(Sequence& sequence);

  Limits limits_;
  KvPool& pool_;
  SequenceId next_id_ = 1;
  Queue running_;
  Queue waiting_;
  StepPlan plan_;
  Counters counters_;
};

}  // namespace spillway
