#pragma once
// Finds the token that a whole word is: an open-addressing hash table over the bytes of tokens,
// built once. Most words of ordinary text are one token, so this is the tokenizer's fast path.
// Immutable after building; any thread may call find(). Keeps references into the byte pool.

#include <cstdint>
#include <string_view>
#include <vector>

#include "prompt/token.h"

namespace spillway {

class WordTable {
 public:
  // Room for `words`; more of them are a bug. REQUIRES: fewer than 2^30.
  explicit WordTable(std::size_t words = 0);

  // A second token of the same bytes is left out. REQUIRES: the bytes outlive the table.
  void add(std::string_view bytes, TokenId token);

  // The token, or -1.
  TokenId find(std::string_view bytes) const;

 private:
  struct Slot {
    std::string_view bytes;
    TokenId token = -1;
    std::uint32_t hash = 0;
  };

  std::size_t place(std::string_view bytes, std::uint64_t hash) const;

  std::vector<Slot> slots_;  // at most half full
  std::size_t free_ = 0;     // words that may still be added
  std::size_t longest_ = 0;  // bytes
};

}  // namespace spillway
