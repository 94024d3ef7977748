#include "prompt/tokenizer.h"

#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "prompt/byte_alphabet.h"

namespace spillway {
namespace {

using Ids = std::vector<TokenId>;
using testing::HasSubstr;

// All 256 bytes as tokens 0 to 255 in the order of bytes, then what `joins` makes, then specials.
Vocabulary toy(const std::vector<std::pair<std::string, std::string>>& joins) {
  Vocabulary vocabulary{.model = "gpt2", .pre = "gpt-2"};
  for (const std::string& spelling : byte_spellings()) {
    vocabulary.tokens.push_back(spelling);
    vocabulary.types.push_back(kNormalToken);
  }
  for (const auto& [left, right] : joins) {
    vocabulary.tokens.push_back(left + right);
    vocabulary.types.push_back(kNormalToken);
    vocabulary.merges.push_back(left + " " + right);
  }
  return vocabulary;
}

TokenId add(Vocabulary& vocabulary, const std::string& text, TokenType type) {
  vocabulary.tokens.push_back(text);
  vocabulary.types.push_back(type);
  return static_cast<TokenId>(vocabulary.tokens.size() - 1);
}

Tokenizer made(const Vocabulary& vocabulary) {
  auto tokenizer = Tokenizer::create(vocabulary);
  EXPECT_TRUE(tokenizer.ok()) << (tokenizer ? "" : tokenizer.error().message);
  return *std::move(tokenizer);
}

std::string text_of(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text;
  for (const TokenId id : ids) {
    text += tokenizer.bytes(id);
  }
  return text;
}

TEST(Tokenizer, JoinsInsideWordsOnly) {
  const Tokenizer tokenizer =
      made(toy({{"a", "b"}, {"\u0120", "ab"}, {"b", "\u0120"}}));  // U+0120 spells the blank

  EXPECT_EQ(tokenizer.encode("ab ab"), (Ids{256, 257}));
  EXPECT_EQ(tokenizer.encode("b b"), (Ids{'b', ' ', 'b'}));
}

TEST(Tokenizer, AWordThatIsATokenIsStillWhatTheMergesMakeOfIt) {
  // "abc" is a token, yet bc joins first and a never meets it.
  const Tokenizer tokenizer = made(toy({{"b", "c"}, {"a", "b"}, {"ab", "c"}}));

  EXPECT_EQ(tokenizer.encode("abc"), (Ids{'a', 256}));
}

TEST(Tokenizer, Llama3TakesAWordThatIsATokenWhole) {
  Vocabulary vocabulary = toy({{"b", "c"}, {"a", "b"}, {"ab", "c"}});
  vocabulary.pre = "llama-bpe";

  EXPECT_EQ(made(vocabulary).encode("abc"), Ids{258});
}

TEST(Tokenizer, AnyBytesComeBack) {
  const Tokenizer tokenizer = made(toy({{"a", "a"}, {"aa", "aa"}, {"\u00e4", "\u00b8"}}));
  Rng rng(41);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (std::uint64_t n = rng.below(80); n > 0; --n) {
      bytes.push_back(static_cast<char>(rng.below(3) == 0 ? rng.below(256) : 'a'));
    }

    ASSERT_EQ(text_of(tokenizer, tokenizer.encode(bytes)), bytes);
  }
}

TEST(Tokenizer, BytesWithoutATokenAreLeftOut) {
  Vocabulary vocabulary = toy({});
  vocabulary.tokens[0xFF] = "unused";

  EXPECT_EQ(made(vocabulary).encode("a\xFF z"), (Ids{'a', ' ', 'z'}));
}

TEST(Tokenizer, TextCannotPoseAsAControlToken) {
  Vocabulary vocabulary = toy({});
  const TokenId marker = add(vocabulary, "<|im_end|>", kControlToken);
  const Tokenizer tokenizer = made(vocabulary);
  const std::vector<Segment> segments = {{.text = "<|im_end|>", .special = true},
                                         {.text = "<|im_end|>"}};

  const Ids plain = tokenizer.encode("<|im_end|>");
  const Ids rendered = tokenizer.encode(segments);

  EXPECT_EQ(std::ranges::count(plain, marker), 0);
  EXPECT_EQ(rendered.front(), marker);
  EXPECT_EQ(std::ranges::count(rendered, marker), 1);
  EXPECT_EQ(tokenizer.bytes(marker), "");
}

TEST(Tokenizer, AnUnknownSpecialSegmentIsPlainText) {
  const Tokenizer tokenizer = made(toy({}));

  EXPECT_EQ(tokenizer.encode(std::vector<Segment>{{.text = "<x>", .special = true}}),
            (Ids{'<', 'x', '>'}));
}

TEST(Tokenizer, UserDefinedTokensAreFoundInTextTheLongestFirst) {
  Vocabulary vocabulary = toy({});
  const TokenId two = add(vocabulary, "<t>", kUserDefinedToken);
  const TokenId four = add(vocabulary, "<t><t>", kUserDefinedToken);
  const Tokenizer tokenizer = made(vocabulary);

  EXPECT_EQ(tokenizer.encode("a<t><t><t>z"), (Ids{'a', four, two, 'z'}));
  EXPECT_EQ(tokenizer.bytes(two), "<t>");
  EXPECT_EQ(tokenizer.encode("<t"), (Ids{'<', 't'}));
}

TEST(Tokenizer, PromptsBeginWithBosOnceWhereTheFileSaysSo) {
  Vocabulary vocabulary = toy({});
  const TokenId bos = add(vocabulary, "<s>", kControlToken);
  vocabulary.bos = bos;
  vocabulary.add_bos = true;
  const Tokenizer tokenizer = made(vocabulary);

  EXPECT_EQ(tokenizer.encode(std::vector<Segment>{{.text = "a"}}), (Ids{bos, 'a'}));
  EXPECT_EQ(tokenizer.encode(std::vector<Segment>{{.text = "<s>", .special = true}, {.text = "a"}}),
            (Ids{bos, 'a'}));
  EXPECT_EQ(tokenizer.encode("a"), Ids{'a'});
}

TEST(Tokenizer, KnowsWhatEndsAReply) {
  Vocabulary vocabulary = toy({});
  const TokenId turn_end = add(vocabulary, "<|im_end|>", kControlToken);
  const TokenId other = add(vocabulary, "<|im_start|>", kControlToken);
  vocabulary.eos = 7;
  vocabulary.eot = 8;
  const Tokenizer tokenizer = made(vocabulary);

  EXPECT_TRUE(tokenizer.is_end(turn_end));
  EXPECT_TRUE(tokenizer.is_end(7));
  EXPECT_TRUE(tokenizer.is_end(8));
  EXPECT_FALSE(tokenizer.is_end(other));
  EXPECT_FALSE(tokenizer.is_end('a'));
}

TEST(Tokenizer, IdsOutsideTheVocabularyAreHarmless) {
  const Tokenizer tokenizer = made(toy({}));

  EXPECT_EQ(tokenizer.size(), 256U);
  for (const TokenId id : {-1, 256, 1 << 30}) {
    EXPECT_EQ(tokenizer.bytes(id), "");
    EXPECT_FALSE(tokenizer.is_end(id));
  }
}

TEST(Tokenizer, AMegabyteWithoutABreakIsNoTrouble) {
  const Tokenizer tokenizer = made(toy({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}}));

  EXPECT_EQ(tokenizer.encode(std::string(1'000'000, 'a')).size(), 125'000U);
  EXPECT_EQ(tokenizer.encode(std::string(1'000'000, ' ')).size(), 1'000'000U);
  EXPECT_EQ(tokenizer.encode(std::string(1'000'000, '\'')).size(), 1'000'000U);
}

TEST(Tokenizer, RefusesABrokenVocabularyNamingTheKey) {
  struct Case {
    const char* name;
    void (*breaks)(Vocabulary&);
    const char* message;
  };
  for (const Case& c : std::vector<Case>{
           {"model", [](Vocabulary& v) { v.model = "llama"; }, "tokenizer.ggml.model is \"llama\""},
           {"pre", [](Vocabulary& v) { v.pre = "new"; },
            "tokenizer.ggml.pre is \"new\"; known are"},
           {"no tokens", [](Vocabulary& v) { v.tokens.clear(); }, "tokenizer.ggml.tokens"},
           {"types", [](Vocabulary& v) { v.types.pop_back(); }, "tokenizer.ggml.token_type"},
           {"eos", [](Vocabulary& v) { v.eos = 9999; }, "tokenizer.ggml.eos_token_id is 9999"},
           {"bos", [](Vocabulary& v) { v.bos = -1; }, "tokenizer.ggml.bos_token_id is -1"},
           {"bos missing", [](Vocabulary& v) { v.add_bos = true; }, "add_bos_token"},
           {"one part", [](Vocabulary& v) { v.merges = {"ab"}; }, "merges[0] is \"ab\""},
           {"empty", [](Vocabulary& v) { v.merges = {""}; }, "merges[0]"},
           {"only a blank", [](Vocabulary& v) { v.merges = {" "}; }, "merges[0]"},
           {"unknown part", [](Vocabulary& v) { v.merges = {"a zz"}; }, "merges[0] is \"a zz\""},
           {"unknown whole", [](Vocabulary& v) { v.merges = {"a z"}; }, "merges[0] is \"a z\""},
       }) {
    SCOPED_TRACE(c.name);
    Vocabulary vocabulary = toy({});
    c.breaks(vocabulary);

    const auto tokenizer = Tokenizer::create(vocabulary);

    ASSERT_FALSE(tokenizer.ok());
    EXPECT_THAT(tokenizer.error().message, HasSubstr(c.message));
  }
}

// The file holds what llama.cpp makes of the texts with SmolLM2's vocabulary, and the part of that
// vocabulary that these texts touch; tools/parity/token_table.mjs writes it.
TEST(Tokenizer, AgreesWithLlamaCppOnSmolLm2) {
  std::ifstream file(SPILLWAY_SOURCE_DIR "/src/prompt/testdata/smollm2_tokens.json");
  const auto table = nlohmann::json::parse(file);
  Vocabulary vocabulary{.model = "gpt2", .pre = "smollm"};
  vocabulary.tokens.resize(table["size"].get<std::size_t>());
  vocabulary.types.resize(vocabulary.tokens.size(), kUnusedToken);
  for (const auto& [id, spelling] :
       table["tokens"].get<std::vector<std::pair<int, std::string>>>()) {
    vocabulary.tokens[static_cast<std::size_t>(id)] = spelling;
    vocabulary.types[static_cast<std::size_t>(id)] = kNormalToken;
  }
  vocabulary.merges = table["merges"].get<std::vector<std::string>>();
  const Tokenizer tokenizer = made(vocabulary);
  ASSERT_GE(table["texts"].size(), 60U);

  for (const auto& row : table["texts"]) {
    const auto text = row["text"].get<std::string>();
    SCOPED_TRACE(text);

    EXPECT_EQ(tokenizer.encode(text), row["ids"].get<Ids>());
  }
}

}  // namespace
}  // namespace spillway
