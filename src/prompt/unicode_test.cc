#include "prompt/unicode.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(CharClass, TellsLettersNumbersAndSpacesApart) {
  struct Case {
    const char* name;
    char32_t code;
    CharClass expected;
  };
  for (const Case& c : std::vector<Case>{
           {"a", 'a', CharClass::kLetter},
           {"Z", 'Z', CharClass::kLetter},
           {"digit", '7', CharClass::kNumber},
           {"underscore", '_', CharClass::kOther},
           {"vertical tab", '\v', CharClass::kSpace},
           {"escape", 0x1B, CharClass::kOther},
           {"unit separator", 0x1F, CharClass::kOther},
           {"next line", 0x85, CharClass::kSpace},
           {"no-break space", 0xA0, CharClass::kSpace},
           {"feminine ordinal", 0xAA, CharClass::kLetter},
           {"superscript two", 0xB2, CharClass::kNumber},
           {"one half", 0xBD, CharClass::kNumber},
           {"multiplication sign", 0xD7, CharClass::kOther},
           {"combining grave", 0x300, CharClass::kOther},
           {"Cyrillic", 0x416, CharClass::kLetter},
           {"Arabic digit", 0x663, CharClass::kNumber},
           {"Roman eight", 0x2167, CharClass::kNumber},
           {"zero width space", 0x200B, CharClass::kOther},
           {"ideographic space", 0x3000, CharClass::kSpace},
           {"ideograph, first", 0x4E00, CharClass::kLetter},
           {"ideograph, last of plane 0", 0x9FFF, CharClass::kLetter},
           {"emoji", 0x1F600, CharClass::kOther},
           {"double-struck digit", 0x1D7D8, CharClass::kNumber},
           {"ideograph of plane 2", 0x20000, CharClass::kLetter},
           {"byte order mark", 0xFEFF, CharClass::kOther},
           {"beyond Unicode", 0x110000, CharClass::kOther},
       }) {
    SCOPED_TRACE(c.name);

    EXPECT_EQ(char_class(c.code), c.expected);
  }
}

TEST(DecodeUtf8, AcceptsWellFormedCharactersOnly) {
  struct Case {
    const char* name;
    std::string bytes;
    DecodedChar expected;
  };
  for (const Case& c : std::vector<Case>{
           {"ASCII", "ab", {.code = 'a', .length = 1, .valid = true}},
           {"NUL", std::string(1, '\0'), {.code = 0, .length = 1, .valid = true}},
           {"two bytes", "\xC3\xA9x", {.code = 0xE9, .length = 2, .valid = true}},
           {"three bytes", "\xE4\xB8\xAD", {.code = 0x4E2D, .length = 3, .valid = true}},
           {"four bytes", "\xF0\x9F\x98\x80", {.code = 0x1F600, .length = 4, .valid = true}},
           {"the last one", "\xF4\x8F\xBF\xBF", {.code = 0x10FFFF, .length = 4, .valid = true}},
           {"lone continuation", "\x80", {.length = 1}},
           {"overlong two", "\xC0\xAF", {.length = 1}},
           {"overlong three", "\xE0\x80\xAF", {.length = 1}},
           {"surrogate", "\xED\xA0\x80", {.length = 1}},
           {"beyond U+10FFFF", "\xF4\x90\x80\x80", {.length = 1}},
           {"no lead at all", "\xFF", {.length = 1}},
           {"cut by another character", "\xE4\xB8x", {.length = 2}},
           {"cut by the end", "\xE4\xB8", {.length = 2, .unfinished = true}},
           {"lead alone", "\xF0", {.length = 1, .unfinished = true}},
       }) {
    SCOPED_TRACE(c.name);

    const DecodedChar got = decode_utf8(c.bytes);

    EXPECT_EQ(got.code, c.expected.code);
    EXPECT_EQ(got.length, c.expected.length);
    EXPECT_EQ(got.valid, c.expected.valid);
    EXPECT_EQ(got.unfinished, c.expected.unfinished);
  }
}

}  // namespace
}  // namespace spillway
