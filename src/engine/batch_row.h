#pragma once
// One token of one sequence in a batch: what the batcher plans and the transformer computes. A
// plain value that borrows the sequence's page table.

#include <cstddef>
#include <cstdint>

#include "engine/kv_pool.h"
#include "prompt/token.h"

namespace spillway {

struct BatchRow {
  TokenId token = 0;
  std::int32_t position = 0;
  const CacheTable* cache = nullptr;  // already holds this row's slot, in every layer
  std::size_t from_end = 1;           // its slot is the last but from_end - 1 that is used
  bool wants_logits = false;
};

}  // namespace spillway
