#pragma once
// The keys and values that KvPool's pages stand for, as 16-bit floats in one block of memory whose
// size is fixed at the start. Written by the rows of a step, each its own slots, of pages that were
// cleared before; read by attention.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "engine/kernels.h"
#include "engine/kv_pool.h"

namespace spillway {

class KvArena {
 public:
  struct Shape {
    std::size_t pages = 0;
    std::size_t kv_heads = 1;
    std::size_t head_dim = 0;

    std::size_t page_halves() const { return 2 * kv_heads * head_dim * kPageSlots; }
    // With the pool's bookkeeping.
    std::size_t page_bytes() const {
      return page_halves() * sizeof(std::uint16_t) + KvPool::kBytesOfBookkeeping;
    }
  };

  explicit KvArena(Shape shape)
      : shape_(shape),
        halves_(
            std::make_unique_for_overwrite<std::uint16_t[]>(shape.pages * shape.page_halves())) {}

  // Of one head in one page: keys [head_dim, kPageSlots], values [kPageSlots, head_dim].
  const std::uint16_t* keys(PageId page, std::size_t head) const { return block(page, 2 * head); }
  const std::uint16_t* values(PageId page, std::size_t head) const {
    return block(page, 2 * head + 1);
  }

  // Forgets what an earlier owner left: attention multiplies unseen slots by zero, which a NaN
  // would survive.
  void clear(PageId page) {
    std::memset(block(page, 0), 0, shape_.page_halves() * sizeof(std::uint16_t));
  }

  // Stores one token of all heads: keys and values are [kv_heads, head_dim].
  void write(PageId page, std::size_t slot, const std::uint16_t* keys,
             const std::uint16_t* values) {
    for (std::size_t head = 0; head < shape_.kv_heads; ++head) {
      std::uint16_t* to = block(page, 2 * head);
      for (std::size_t d = 0; d < shape_.head_dim; ++d) {
        to[d * kPageSlots + slot] = keys[head * shape_.head_dim + d];
      }
      std::memcpy(block(page, 2 * head + 1) + slot * shape_.head_dim,
                  values + head * shape_.head_dim, shape_.head_dim * sizeof(std::uint16_t));
    }
  }

 private:
  std::uint16_t* block(PageId page, std::size_t index) const {
    return halves_.get() + static_cast<std::size_t>(page) * shape_.page_halves() +
           index * shape_.head_dim * kPageSlots;
  }

  Shape shape_;
  std::unique_ptr<std::uint16_t[]> halves_;
};

}  // namespace spillway
