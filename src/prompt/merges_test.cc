#include "prompt/merges.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace spillway {
namespace {

using Symbols = std::vector<TokenId>;

// The definition, step by step: best rank first, leftmost first.
Symbols joined_plainly(const std::vector<Merges::Rule>& rules, Symbols symbols) {
  while (true) {
    std::size_t best_rule = rules.size();
    std::size_t best_at = 0;
    for (std::size_t at = 0; at + 1 < symbols.size(); ++at) {
      for (std::size_t rule = 0; rule < best_rule; ++rule) {
        if (rules[rule].left == symbols[at] && rules[rule].right == symbols[at + 1]) {
          best_rule = rule;
          best_at = at;
        }
      }
    }
    if (best_rule == rules.size()) {
      return symbols;
    }
    symbols[best_at] = rules[best_rule].joined;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

TEST(Merges, BestRankFirstThenLeftmost) {
  const Merges merges({{.left = 1, .right = 2, .joined = 3}, {.left = 0, .right = 1, .joined = 4}});
  Symbols symbols = {0, 1, 2, 0, 1};

  merges.join(symbols);

  EXPECT_EQ(symbols, (Symbols{0, 3, 4}));
}

TEST(Merges, OfTwoRulesForOnePairTheFirstCounts) {
  const Merges merges({{.left = 1, .right = 1, .joined = 2}, {.left = 1, .right = 1, .joined = 3}});
  Symbols symbols = {1, 1};

  merges.join(symbols);

  EXPECT_EQ(symbols, Symbols{2});
}

TEST(Merges, NothingJoinsAcrossAMissingByte) {
  const Merges merges({{.left = 1, .right = 1, .joined = 2}});
  Symbols symbols = {1, Merges::kNoToken, 1, 1};

  merges.join(symbols);

  EXPECT_EQ(symbols, (Symbols{1, Merges::kNoToken, 2}));
}

TEST(Merges, WithoutRulesWordsStayAsTheyAre) {
  Symbols symbols(100, 5);

  Merges().join(symbols);

  EXPECT_EQ(symbols, Symbols(100, 5));
}

TEST(Merges, ShortAndLongWordsFollowTheDefinition) {
  Rng rng(29);
  for (int round = 0; round < 1500; ++round) {
    std::vector<Merges::Rule> rules;
    TokenId next = 4;
    for (std::uint64_t n = rng.below(12); n > 0; --n) {
      const auto bound = static_cast<std::uint64_t>(next);
      rules.push_back({.left = static_cast<TokenId>(rng.below(bound)),
                       .right = static_cast<TokenId>(rng.below(bound)),
                       .joined = next});
      ++next;
    }
    Symbols symbols;
    for (std::uint64_t n = rng.below(70); n > 0; --n) {
      symbols.push_back(static_cast<TokenId>(rng.below(4)));
    }
    const Symbols expected = joined_plainly(rules, symbols);

    Merges(rules).join(symbols);

    ASSERT_EQ(symbols, expected) << "round " << round;
  }
}

}  // namespace
}  // namespace spillway
