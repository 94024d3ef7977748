#pragma once
// The little of Unicode that pre-tokenizers and text streams need: decoding UTF-8 and telling
// letters, numbers and white space apart. The classes come from a table that
// tools/make_unicode_classes.py generates. Pure; anybody may call it.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spillway {

enum class CharClass : std::uint8_t {
  kOther,
  kLetter,  // general category L*
  kNumber,  // general category N*
  kSpace,   // White_Space
};

CharClass char_class(char32_t code);

struct DecodedChar {
  char32_t code = 0xFFFD;
  std::size_t length = 1;   // bytes taken; for what is not UTF-8, its maximal part
  bool valid = false;       // a whole, well-formed character
  bool unfinished = false;  // not valid, but more bytes could make it so
};

// The character at the beginning of `bytes`. REQUIRES: bytes is not empty.
DecodedChar decode_utf8(std::string_view bytes);

}  // namespace spillway
