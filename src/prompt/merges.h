#pragma once
// The merges of a BPE vocabulary and the joining of one word's symbols by them: always the pair of
// best rank, of equal ranks the leftmost, until no pair is left. Short words are scanned, long ones
// use a heap over a linked list, n log n, so that a megabyte without a break stays cheap.
// Immutable after building; any thread may call join().

#include <cstdint>
#include <vector>

#include "prompt/token.h"

namespace spillway {

class Merges {
 public:
  // A symbol that no merge touches: a byte for which the vocabulary has no token.
  static constexpr TokenId kNoToken = -1;
  static constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

  struct Rule {
    TokenId left = kNoToken;
    TokenId right = kNoToken;
    TokenId joined = kNoToken;
  };

  Merges() : Merges(std::vector<Rule>{}) {}

  // Best first; of two rules for one pair the first counts.
  // REQUIRES: ids are not negative; fewer than 2^30 rules.
  explicit Merges(const std::vector<Rule>& rules);

  // Joins symbols in place. Scratch space is of the order of the word.
  void join(std::vector<TokenId>& symbols) const;

 private:
  struct Slot {
    std::uint64_t pair = kEmpty;
    std::uint32_t rank = kNoRank;
    TokenId joined = kNoToken;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // no pair: ids are not negative

  const Slot& find(TokenId left, TokenId right) const;
  void join_short(std::vector<TokenId>& symbols) const;
  void join_long(std::vector<TokenId>& symbols) const;

  friend class LongWord;
  std::vector<Slot> slots_;  // open addressing, at most half full
  unsigned shift_ = 0;       // turns a 64-bit hash into an index
};

}  // namespace spillway
