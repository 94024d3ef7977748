#include "prompt/word_table.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "base/check.h"

namespace spillway {
namespace {

std::uint64_t hash_of(std::string_view bytes) {
  std::uint64_t hash = bytes.size() * 0x9E3779B97F4A7C15U;
  while (!bytes.empty()) {
    std::uint64_t part = 0;
    const std::size_t length = std::min(bytes.size(), sizeof part);
    std::memcpy(&part, bytes.data(), length);
    hash = (std::rotl(hash, 23) ^ part) * 0xD6E8FEB86659FD93U;
    bytes.remove_prefix(length);
  }
  return hash ^ (hash >> 32U);
}

}  // namespace

WordTable::WordTable(std::size_t words)
    : slots_(std::bit_ceil(std::max<std::size_t>(words, 1) * 2)), free_(words) {}

// The slot of these bytes, or the empty one where they belong.
std::size_t WordTable::place(std::string_view bytes, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  while (slots_[at].token >= 0 &&
         (slots_[at].hash != static_cast<std::uint32_t>(hash) || slots_[at].bytes != bytes)) {
    at = (at + 1) & mask;
  }
  return at;
}

void WordTable::add(std::string_view bytes, TokenId token) {
  CHECK(free_ > 0 && token >= 0);
  const std::uint64_t hash = hash_of(bytes);
  Slot& slot = slots_[place(bytes, hash)];
  if (slot.token < 0) {
    slot = {.bytes = bytes, .token = token, .hash = static_cast<std::uint32_t>(hash)};
    --free_;
    longest_ = std::max(longest_, bytes.size());
  }
}

TokenId WordTable::find(std::string_view bytes) const {
  return bytes.size() > longest_ ? -1 : slots_[place(bytes, hash_of(bytes))].token;
}

}  // namespace spillway
