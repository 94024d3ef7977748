#include "prompt/pretokenizer.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace spillway {
namespace {

using Words = std::vector<std::string>;

Words words_of(std::string_view pre, std::string_view text) {
  const auto pre_tokenizer = pre_tokenizer_named(pre);
  Words words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = pre_tokenizer->word_end(text, at);
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

struct Case {
  const char* name;
  std::string text;
  Words words;
};

void expect_words(std::string_view pre, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(words_of(pre, c.text), c.words);
  }
}

TEST(PreTokenizer, Gpt2TakesABlankWithTheWordThatFollows) {
  expect_words("gpt-2",
               {
                   {"words", "Hello world", {"Hello", " world"}},
                   {"punctuation", "a, b!?", {"a", ",", " b", "!?"}},
                   {"contractions", "I'll can't 'S", {"I", "'ll", " can", "'t", " '", "S"}},
                   {"two blanks", "a  b", {"a", " ", " b"}},
                   {"line breaks", "a\n\nb", {"a", "\n", "\n", "b"}},
                   {"tab before a blank", "a\t b", {"a", "\t", " b"}},
                   {"blanks at the end", "a  ", {"a", "  "}},
                   {"numbers", "x 123y", {"x", " 123", "y"}},
                   {"wide blanks", "a\u3000\u3000b", {"a", "\u3000", "\u3000", "b"}},
                   {"scripts", "\u4e2d\u6587 \u0416", {"\u4e2d\u6587", " \u0416"}},
                   {"a mark cuts a word", "e\u0301x", {"e", "\u0301", "x"}},
                   {"broken bytes", "a\xFF\xFE z", {"a", "\xFF\xFE", " z"}},
                   {"only a blank", " ", {" "}},
               });
}

TEST(PreTokenizer, SmolLmTakesEachDigitAlone) {
  expect_words("smollm", {
                             {"digits", "x123", {"x", "1", "2", "3"}},
                             {"the blank before stays alone", "a 1", {"a", " ", "1"}},
                             {"several blanks stay together", "a  1", {"a", "  ", "1"}},
                             {"and in front of a word do not", "1  a", {"1", " ", " a"}},
                             {"fractions", "\u00bd\u2167", {"\u00bd", "\u2167"}},
                             {"decimal", "3.14", {"3", ".", "1", "4"}},
                             {"contraction", "it's 9", {"it", "'s", " ", "9"}},
                         });
}

TEST(PreTokenizer, Llama3TakesThreeDigitsAndQwenOne) {
  expect_words("llama-bpe",
               {
                   {"digits", "12345 6", {"123", "45", " ", "6"}},
                   {"a mark goes with its word", "(foo) .bar", {"(foo", ")", " .", "bar"}},
                   {"contractions in any case", "I'LL can'T", {"I", "'LL", " can", "'T"}},
                   {"marks take line breaks", "a;\n\nb", {"a", ";\n\n", "b"}},
                   {"blanks before a break", "a \n \n b", {"a", " \n \n", " b"}},
                   {"tab goes with its word", "\tx", {"\tx"}},
                   {"blanks at the end", "a  ", {"a", "  "}},
                   {"no-break space", "\u00a0x", {"\u00a0x"}},
               });
  expect_words("qwen2", {{"digits", "12 3", {"1", "2", " ", "3"}}});
}

TEST(PreTokenizer, WordsCoverAnyTextInOrder) {
  Rng rng(17);
  static constexpr std::string_view kParts[] = {
      "a",    "Z",   "1", " ", "\n", "\r", "'", "s", "!", "\xE4\xB8\xAD", "\xE3\x80\x80",
      "\xFF", "\xE4"};
  for (const std::string_view pre : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    const auto pre_tokenizer = pre_tokenizer_named(pre);
    for (int round = 0; round < 3000; ++round) {
      std::string text;
      for (std::uint64_t n = rng.below(20); n > 0; --n) {
        text += kParts[rng.below(std::size(kParts))];
      }
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = pre_tokenizer->word_end(text, at);
        ASSERT_GT(end, at) << pre << ": " << text;
        ASSERT_LE(end, text.size());
        at = end;
      }
    }
  }
}

TEST(PreTokenizer, UnknownNamesAreNotGuessed) {
  EXPECT_FALSE(pre_tokenizer_named("no-such"));
  EXPECT_FALSE(pre_tokenizer_named(""));
}

}  // namespace
}  // namespace spillway
