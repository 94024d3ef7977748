#pragma once
// Who owns which page of the key-value cache: integers and checks only, the numbers themselves lie
// in KvArena. A page holds kPageSlots tokens of one layer; every sequence has a page table for each
// layer, because layers may come to keep different tokens. Each slot knows its token's position.
// Pages are counted: the last owner frees them. One thread owns it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels.h"

namespace spillway {

using PageId = std::int32_t;

// The pages of one sequence in one layer, in order; `used` slots of them are taken.
struct LayerPages {
  std::vector<PageId> pages;
  std::size_t used = 0;
};

// All pages of one sequence. Given back by KvPool::release, never by a destructor: a table does not
// know its pool.
struct CacheTable {
  std::vector<LayerPages> layers;
};

class KvPool {
 public:
  struct Shape {
    std::size_t layers = 1;
    std::size_t pages = 0;
  };

  explicit KvPool(Shape shape);

  CacheTable empty_table() const;

  // Pages that `tokens` more tokens of the sequence would take.
  std::size_t pages_for(const CacheTable& table, std::size_t tokens) const;

  // Takes slots in every layer for tokens at first_position, first_position + 1 ...: all of them,
  // or none and false when there are too few free pages. REQUIRES: the last page of the table is
  // not shared.
  bool extend(CacheTable& table, std::int32_t first_position, std::size_t tokens);

  // A second owner of the table's first tokens, as many as fill whole pages and are at most
  // `tokens`.
  CacheTable share(const CacheTable& table, std::size_t tokens);

  // Gives all its pages back; the table is empty afterwards.
  void release(CacheTable& table);

  // The positions of a page's slots; -1: free.
  std::span<const std::int32_t, kPageSlots> positions(PageId page) const;
  std::uint32_t owners(PageId page) const { return owners_[static_cast<std::size_t>(page)]; }

  std::size_t total_pages() const { return owners_.size(); }
  std::size_t free_pages() const { return free_.size(); }
  std::size_t used_pages() const { return total_pages() - free_pages(); }
  // Tokens of one sequence that the whole pool could hold.
  std::size_t capacity_tokens() const { return total_pages() / layers_ * kPageSlots; }

  // What the bookkeeping of one page takes, beside its numbers.
  static constexpr std::size_t kBytesOfBookkeeping =
      kPageSlots * sizeof(std::int32_t) + sizeof(std::uint32_t) + sizeof(PageId);

 private:
  PageId take_page();

  std::size_t layers_;
  std::vector<std::uint32_t> owners_;
  std::vector<std::int32_t> positions_;  // [pages, kPageSlots]
  std::vector<PageId> free_;             // the most recently freed last, taken first
};

}  // namespace spillway
