#include "engine/kv_pool.h"

#include <algorithm>

#include "base/check.h"

namespace spillway {

KvPool::KvPool(Shape shape)
    : layers_(shape.layers), owners_(shape.pages, 0), positions_(shape.pages * kPageSlots, -1) {
  CHECK(shape.layers > 0);
  free_.reserve(shape.pages);
  for (std::size_t page = shape.pages; page > 0; --page) {
    free_.push_back(static_cast<PageId>(page - 1));
  }
}

CacheTable KvPool::empty_table() const {
  return {.layers = std::vector<LayerPages>(layers_)};
}

std::size_t KvPool::pages_for(const CacheTable& table, std::size_t tokens) const {
  std::size_t pages = 0;
  for (const LayerPages& layer : table.layers) {
    const std::size_t wanted = (layer.used + tokens + kPageSlots - 1) / kPageSlots;
    pages += wanted - std::min(wanted, layer.pages.size());
  }
  return pages;
}

bool KvPool::extend(CacheTable& table, std::int32_t first_position, std::size_t tokens) {
  if (pages_for(table, tokens) > free_.size()) {
    return false;
  }
  for (LayerPages& layer : table.layers) {
    for (std::size_t i = 0; i < tokens; ++i) {
      const std::size_t slot = layer.used % kPageSlots;
      if (slot == 0) {
        layer.pages.push_back(take_page());
      }
      const auto page = static_cast<std::size_t>(layer.pages.back());
      CHECK(owners_[page] == 1);
      positions_[page * kPageSlots + slot] = first_position + static_cast<std::int32_t>(i);
      ++layer.used;
    }
  }
  return true;
}

CacheTable KvPool::share(const CacheTable& table, std::size_t tokens) {
  CacheTable shared = empty_table();
  for (std::size_t l = 0; l < table.layers.size(); ++l) {
    const LayerPages& from = table.layers[l];
    const std::size_t pages = std::min(tokens, from.used) / kPageSlots;
    LayerPages& to = shared.layers[l];
    to.pages.assign(from.pages.begin(), from.pages.begin() + static_cast<std::ptrdiff_t>(pages));
    to.used = pages * kPageSlots;
    for (const PageId page : to.pages) {
      ++owners_[static_cast<std::size_t>(page)];
    }
  }
  return shared;
}

void KvPool::release(CacheTable& table) {
  for (LayerPages& layer : table.layers) {
    for (const PageId page : layer.pages) {
      std::uint32_t& owners = owners_[static_cast<std::size_t>(page)];
      CHECK(owners > 0);
      if (--owners == 0) {
        free_.push_back(page);
      }
    }
    layer.pages.clear();
    layer.used = 0;
  }
}

std::span<const std::int32_t, kPageSlots> KvPool::positions(PageId page) const {
  return std::span<const std::int32_t, kPageSlots>(
      positions_.data() + static_cast<std::size_t>(page) * kPageSlots, kPageSlots);
}

PageId KvPool::take_page() {
  CHECK(!free_.empty());
  const PageId page = free_.back();
  free_.pop_back();
  const auto index = static_cast<std::size_t>(page);
  CHECK(owners_[index] == 0);
  owners_[index] = 1;
  std::fill_n(positions_.begin() + static_cast<std::ptrdiff_t>(index * kPageSlots), kPageSlots, -1);
  return page;
}

}  // namespace spillway
