#include "prompt/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace spillway {
namespace {

struct ClassRange {
  char32_t first;
  char32_t last;
  CharClass name;
};

constexpr ClassRange kRanges[] = {
#include "prompt/unicode_classes.inc"
};

constexpr std::array<CharClass, 128> kAscii = [] {
  std::array<CharClass, 128> classes{};
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      classes[c] = CharClass::kLetter;
    } else if (c >= '0' && c <= '9') {
      classes[c] = CharClass::kNumber;
    } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
      classes[c] = CharClass::kSpace;
    }
  }
  return classes;
}();

// What a lead byte promises: the length and the range of the second byte (Unicode 15, table 3-7,
// which excludes overlong forms, surrogates and what lies beyond U+10FFFF).
struct Lead {
  std::size_t length = 0;
  unsigned char second_min = 0x80;
  unsigned char second_max = 0xBF;
};

Lead lead_of(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) {
    return {.length = 2};
  }
  if (byte >= 0xE0 && byte <= 0xEF) {
    return {.length = 3,
            .second_min = static_cast<unsigned char>(byte == 0xE0 ? 0xA0 : 0x80),
            .second_max = static_cast<unsigned char>(byte == 0xED ? 0x9F : 0xBF)};
  }
  if (byte >= 0xF0 && byte <= 0xF4) {
    return {.length = 4,
            .second_min = static_cast<unsigned char>(byte == 0xF0 ? 0x90 : 0x80),
            .second_max = static_cast<unsigned char>(byte == 0xF4 ? 0x8F : 0xBF)};
  }
  return {};
}

}  // namespace

CharClass char_class(char32_t code) {
  if (code < kAscii.size()) {
    return kAscii[code];
  }
  const auto* range = std::ranges::upper_bound(kRanges, code, {}, &ClassRange::first);
  if (range == std::begin(kRanges) || code > std::prev(range)->last) {
    return CharClass::kOther;
  }
  return std::prev(range)->name;
}

DecodedChar decode_utf8(std::string_view bytes) {
  const auto byte = [bytes](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  if (byte(0) < 0x80) {
    return {.code = byte(0), .length = 1, .valid = true};
  }
  const Lead lead = lead_of(byte(0));
  if (lead.length == 0) {
    return {};
  }
  char32_t code = byte(0) & (0xFFU >> (lead.length + 1));
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) {
      return {.length = i, .unfinished = true};
    }
    const unsigned char low = i == 1 ? lead.second_min : 0x80;
    const unsigned char high = i == 1 ? lead.second_max : 0xBF;
    if (byte(i) < low || byte(i) > high) {
      return {.length = i};
    }
    code = (code << 6U) | (byte(i) & 0x3FU);
  }
  return {.code = code, .length = lead.length, .valid = true};
}

}  // namespace spillway
