#include "prompt/token_estimate.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace spillway {
namespace {

// Counts of SmolLM2's own tokenizer; tools/parity/token_counts.mjs writes them.
TEST(EstimateTokens, StaysWithinTheStatedErrorOfRealCounts) {
  std::ifstream file(SPILLWAY_SOURCE_DIR "/src/prompt/testdata/token_counts.json");
  const auto samples = nlohmann::json::parse(file);
  ASSERT_GE(samples.size(), 12U);

  for (const auto& sample : samples) {
    SCOPED_TRACE(sample["name"].get<std::string>());
    const auto real = sample["tokens"].get<double>();

    const auto estimate = estimate_tokens(sample["text"].get<std::string>());

    EXPECT_NEAR(static_cast<double>(estimate), real,
                real * sample["tolerance_percent"].get<double>() / 100);
  }
}

TEST(EstimateTokens, CountsTextWithoutBreaks) {
  constexpr std::size_t kLength = 1'000'000;
  for (const char c : {'a', 'Z', '7', ' ', '\n', '#', '\xE4'}) {
    SCOPED_TRACE(static_cast<int>(c));

    const std::int64_t tokens = estimate_tokens(std::string(kLength, c));

    EXPECT_GT(tokens, kLength / 10);
    EXPECT_LE(tokens, kLength);
  }
}

TEST(EstimateTokens, NothingIsNothing) {
  EXPECT_EQ(estimate_tokens(""), 0);
  EXPECT_GE(estimate_tokens("a"), 1);
}

TEST(EstimateTokens, GrowsWithTheText) {
  const std::string text = "The quick brown fox, jumps over 13 lazy dogs!\n\n\t\u4e2d\u6587";
  std::int64_t before = 0;
  for (int times = 1; times < 50; ++times) {
    std::string repeated;
    for (int i = 0; i < times; ++i) {
      repeated += text;
    }

    const std::int64_t tokens = estimate_tokens(repeated);

    EXPECT_GT(tokens, before);
    before = tokens;
  }
}

}  // namespace
}  // namespace spillway
