#include "prompt/text_stream.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "prompt/unicode.h"

namespace spillway {
namespace {

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const DecodedChar next = decode_utf8(text);
    if (!next.valid) {
      return false;
    }
    text.remove_prefix(next.length);
  }
  return true;
}

TEST(TextStream, HoldsBackAnUnfinishedCharacter) {
  TextStream stream;

  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x80z"), "\xF0\x9F\x98\x80z");
  EXPECT_EQ(stream.finish(), "");
}

TEST(TextStream, ReplacesWhatCanNoLongerBecomeACharacter) {
  struct Case {
    const char* name;
    std::string bytes;
    std::string text;
  };
  const std::string bad = "\xEF\xBF\xBD";
  for (const Case& c : std::vector<Case>{
           {"lone continuation", "a\x80z", "a" + bad + "z"},
           {"cut three", "\xE4\xB8z", bad + "z"},
           {"cut four, then a whole one", "\xF0\x9F\x98\xE4\xB8\xAD", bad + "\xE4\xB8\xAD"},
           {"overlong", "\xC0\xAF", bad + bad},
           {"surrogate", "\xED\xA0\x80", bad + bad + bad},
           {"unfinished at the end", "ok\xE4\xB8", "ok" + bad},
           {"the table of Unicode 3.9", "\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64",
            "a" + bad + bad + bad + "b" + bad + "c" + bad + bad + "d"},
       }) {
    SCOPED_TRACE(c.name);
    TextStream stream;

    const std::string text = stream.push(c.bytes);

    EXPECT_EQ(text + stream.finish(), c.text);
  }
}

TEST(TextStream, TextDoesNotDependOnHowBytesArrive) {
  Rng rng(3);
  constexpr std::string_view kBytes = "a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80\xED\xFF\xC0";
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (std::uint64_t n = rng.below(30); n > 0; --n) {
      bytes.push_back(kBytes[rng.below(kBytes.size())]);
    }
    TextStream whole;
    std::string expected = whole.push(bytes);
    expected += whole.finish();

    TextStream pieces;
    std::string text;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t length = 1 + rng.below(4);
      const std::string piece = pieces.push(std::string_view(bytes).substr(at, length));
      ASSERT_TRUE(is_utf8(piece));
      text += piece;
      at += length;
    }
    text += pieces.finish();

    ASSERT_EQ(text, expected);
  }
}

TEST(TextStream, BeginsAnewAfterFinish) {
  TextStream stream;
  stream.push("\xE4\xB8");
  stream.finish();

  EXPECT_EQ(stream.push("\xADx"), "\xEF\xBF\xBDx");
}

}  // namespace
}  // namespace spillway
