#include "prompt/merges.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <functional>
#include <limits>
#include <queue>

namespace spillway {
namespace {

// Below this the quadratic scan beats the heap.
constexpr std::size_t kShortWord = 32;

std::uint64_t pair_of(TokenId left, TokenId right) {
  return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32U) |
         static_cast<std::uint32_t>(right);
}

std::uint64_t scrambled(std::uint64_t pair) {
  pair ^= pair >> 29U;
  return pair * 0x9E3779B97F4A7C15U;
}

}  // namespace

Merges::Merges(const std::vector<Rule>& rules)
    : slots_(std::bit_ceil(std::max<std::size_t>(rules.size(), 1) * 2)),
      shift_(64U - static_cast<unsigned>(std::countr_zero(slots_.size()))) {
  std::uint32_t rank = 0;
  for (const Rule& rule : rules) {
    const std::uint64_t pair = pair_of(rule.left, rule.right);
    std::size_t at = scrambled(pair) >> shift_;
    while (slots_[at].pair != kEmpty && slots_[at].pair != pair) {
      at = (at + 1) & (slots_.size() - 1);
    }
    if (slots_[at].pair == kEmpty) {
      slots_[at] = {.pair = pair, .rank = rank, .joined = rule.joined};
    }
    ++rank;
  }
}

// The pair's slot, or an empty one, whose rank is kNoRank.
const Merges::Slot& Merges::find(TokenId left, TokenId right) const {
  static constexpr Slot kNothing;
  if (left < 0 || right < 0) {
    return kNothing;
  }
  const std::uint64_t pair = pair_of(left, right);
  std::size_t at = scrambled(pair) >> shift_;
  while (slots_[at].pair != kEmpty && slots_[at].pair != pair) {
    at = (at + 1) & (slots_.size() - 1);
  }
  return slots_[at];
}

void Merges::join(std::vector<TokenId>& symbols) const {
  if (symbols.size() < 2) {
    return;
  }
  if (symbols.size() <= kShortWord) {
    join_short(symbols);
  } else {
    join_long(symbols);
  }
}

void Merges::join_short(std::vector<TokenId>& symbols) const {
  std::array<std::uint32_t, kShortWord> ranks{};  // of the pair that begins here
  std::size_t count = symbols.size();
  const auto rank_at = [&](std::size_t i) {
    return i + 1 < count ? find(symbols[i], symbols[i + 1]).rank : kNoRank;
  };
  for (std::size_t i = 0; i < count; ++i) {
    ranks[i] = rank_at(i);
  }
  while (true) {
    const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(count);
    const auto best = std::min_element(ranks.begin(), end);
    if (*best == kNoRank) {
      break;
    }
    const auto at = static_cast<std::size_t>(best - ranks.begin());
    symbols[at] = find(symbols[at], symbols[at + 1]).joined;
    std::move(best + 2, end, best + 1);
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    --count;
    ranks[at] = rank_at(at);
    if (at > 0) {
      ranks[at - 1] = rank_at(at - 1);
    }
  }
}

// A word as a linked list with a heap of the pairs that may be joined. A heap entry is stale when
// the pair at its place has another rank by now.
class LongWord {
 public:
  LongWord(const Merges& merges, std::vector<TokenId>& symbols)
      : merges_(merges), symbols_(symbols), links_(symbols.size()) {
    std::vector<Candidate> all;
    for (std::uint32_t i = 0; i < links_.size(); ++i) {
      links_[i].previous = i == 0 ? kNone : i - 1;
      links_[i].next = i + 1 == links_.size() ? kNone : i + 1;
      links_[i].rank = rank_at(i);
      if (links_[i].rank != Merges::kNoRank) {
        all.push_back({links_[i].rank, i});
      }
    }
    heap_ = Heap(std::greater<>(), std::move(all));
  }

  void join() {
    while (!heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      if (links_[best.at].rank == best.rank) {
        join_at(best.at);
      }
    }
    std::size_t kept = 0;
    for (std::uint32_t i = 0; i != kNone; i = links_[i].next) {
      symbols_[kept++] = symbols_[i];
    }
    symbols_.resize(kept);
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t at;
    auto operator<=>(const Candidate&) const = default;
  };
  struct Link {
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
    std::uint32_t rank = Merges::kNoRank;  // of the pair that begins here
  };
  using Heap = std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>>;

  std::uint32_t rank_at(std::uint32_t at) const {
    const std::uint32_t next = links_[at].next;
    return next == kNone ? Merges::kNoRank : merges_.find(symbols_[at], symbols_[next]).rank;
  }

  void rank_again(std::uint32_t at) {
    links_[at].rank = rank_at(at);
    if (links_[at].rank != Merges::kNoRank) {
      heap_.push({links_[at].rank, at});
    }
  }

  void join_at(std::uint32_t at) {
    const std::uint32_t gone = links_[at].next;
    symbols_[at] = merges_.find(symbols_[at], symbols_[gone]).joined;
    links_[at].next = links_[gone].next;
    links_[gone].rank = Merges::kNoRank;
    if (links_[gone].next != kNone) {
      links_[links_[gone].next].previous = at;
    }
    rank_again(at);
    if (links_[at].previous != kNone) {
      rank_again(links_[at].previous);
    }
  }

  const Merges& merges_;
  std::vector<TokenId>& symbols_;
  std::vector<Link> links_;
  Heap heap_;
};

void Merges::join_long(std::vector<TokenId>& symbols) const {
  LongWord(*this, symbols).join();
}

}  // namespace spillway
