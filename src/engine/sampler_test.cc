#include "engine/sampler.h"

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

std::map<TokenId, int> draws(const SamplerOptions& options, std::span<const float> logits,
                             int count) {
  Sampler sampler(options);
  SamplerScratch scratch;
  std::map<TokenId, int> seen;
  for (int i = 0; i < count; ++i) {
    ++seen[sampler.choose(logits, scratch)];
  }
  return seen;
}

TEST(Sampler, GreedyTakesTheFirstOfTheBest) {
  const std::vector<float> logits{1.0F, 3.0F, NAN, 3.0F, -INFINITY};

  EXPECT_EQ(draws({.temperature = 0}, logits, 3), (std::map<TokenId, int>{{1, 3}}));
  EXPECT_EQ(draws({.temperature = 2, .top_k = 1}, logits, 3), (std::map<TokenId, int>{{1, 3}}));
}

TEST(Sampler, DrawsInProportionToTheSoftmax) {
  const std::vector<float> logits{0.0F, std::log(2.0F), std::log(5.0F), -INFINITY};

  const std::map<TokenId, int> seen = draws({.seed = 5}, logits, 20000);

  EXPECT_NEAR(seen.at(0), 2500, 250);
  EXPECT_NEAR(seen.at(1), 5000, 350);
  EXPECT_NEAR(seen.at(2), 12500, 500);
  EXPECT_FALSE(seen.contains(3));
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  const std::vector<float> logits{0.0F, 1.0F};

  const int cold = draws({.temperature = 0.25, .seed = 1}, logits, 10000)[0];
  const int warm = draws({.temperature = 4.0, .seed = 1}, logits, 10000)[0];

  EXPECT_NEAR(cold, 10000 / (1 + std::exp(4.0)), 60);
  EXPECT_NEAR(warm, 10000 / (1 + std::exp(0.25)), 200);
}

TEST(Sampler, TopKAndTopPKeepTheBest) {
  std::vector<float> logits(300);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = -0.001F * static_cast<float>(i);
  }
  logits[200] = std::log(900.0F);
  logits[201] = std::log(600.0F);

  const auto by_count = draws({.top_k = 2, .seed = 2}, logits, 200);
  const auto by_share = draws({.top_p = 0.75, .seed = 2}, logits, 200);
  const auto of_one = draws({.top_p = 1e-9, .seed = 2}, logits, 20);
  const auto of_many = draws({.top_p = 0.99, .seed = 2}, logits, 2000);

  EXPECT_EQ(by_count.size(), 2U);
  EXPECT_EQ(by_share.size(), 2U);
  EXPECT_EQ(of_one, (std::map<TokenId, int>{{200, 20}}));
  EXPECT_GT(of_many.size(), 100U);
  EXPECT_FALSE(of_many.contains(299));
}

TEST(Sampler, TheSameSeedGivesTheSameTokens) {
  const std::vector<float> logits(50, 0.0F);
  Sampler first({.seed = 9});
  Sampler second({.seed = 9});
  Sampler other({.seed = 10});
  SamplerScratch scratch;
  int different = 0;
  for (int i = 0; i < 100; ++i) {
    const TokenId token = first.choose(logits, scratch);
    EXPECT_EQ(token, second.choose(logits, scratch));
    different += token == other.choose(logits, scratch) ? 0 : 1;
  }
  EXPECT_GT(different, 50);
}

TEST(Sampler, AlwaysGivesATokenOfTheVocabulary) {
  for (const float value : {NAN, INFINITY, -INFINITY, 0.0F, 3e38F}) {
    const std::vector<float> logits(7, value);
    for (const double temperature : {0.0, 1e-9, 1.0, 100.0}) {
      for (const double top_p : {1e-300, 0.5, 1.0}) {
        const auto seen =
            draws({.temperature = temperature, .top_k = 3, .top_p = top_p}, logits, 10);
        EXPECT_GE(seen.begin()->first, 0);
        EXPECT_LT(seen.rbegin()->first, 7);
      }
    }
  }
}

TEST(Sampler, NamesTheOptionThatIsOutOfRange) {
  const std::pair<SamplerOptions, const char*> cases[] = {{{.temperature = -0.1}, "temperature"},
                                                          {{.temperature = NAN}, "temperature"},
                                                          {{.temperature = 1e6}, "temperature"},
                                                          {{.top_p = 0}, "top_p"},
                                                          {{.top_p = 1.1}, "top_p"},
                                                          {{.top_p = NAN}, "top_p"},
                                                          {{.top_k = -1}, "top_k"}};
  for (const auto& [options, name] : cases) {
    const Status status = check_sampler_options(options);
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message, testing::HasSubstr(name));
  }
}

}  // namespace
}  // namespace spillway
