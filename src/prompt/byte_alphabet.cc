#include "prompt/byte_alphabet.h"

#include <cstddef>

#include "prompt/unicode.h"

namespace spillway {
namespace {

constexpr std::size_t kAlphabetEnd = 0x144;  // one beyond the last code point in use

constexpr bool prints_as_itself(std::size_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

constexpr std::array<std::size_t, 256> kCodeOfByte = [] {
  std::array<std::size_t, 256> codes{};
  std::size_t next = 0x100;
  for (std::size_t byte = 0; byte < codes.size(); ++byte) {
    codes[byte] = prints_as_itself(byte) ? byte : next++;
  }
  return codes;
}();

constexpr std::array<int, kAlphabetEnd> kByteOfCode = [] {
  std::array<int, kAlphabetEnd> bytes{};
  bytes.fill(-1);
  for (std::size_t byte = 0; byte < kCodeOfByte.size(); ++byte) {
    bytes[kCodeOfByte[byte]] = static_cast<int>(byte);
  }
  return bytes;
}();

// REQUIRES: code is below U+0800.
std::string utf8(std::size_t code) {
  if (code < 0x80) {
    return {static_cast<char>(code)};
  }
  return {static_cast<char>(0xC0U | (code >> 6U)), static_cast<char>(0x80U | (code & 0x3FU))};
}

}  // namespace

const std::array<std::string, 256>& byte_spellings() {
  static const std::array<std::string, 256> spellings = [] {
    std::array<std::string, 256> all;
    for (std::size_t byte = 0; byte < all.size(); ++byte) {
      all[byte] = utf8(kCodeOfByte[byte]);
    }
    return all;
  }();
  return spellings;
}

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  std::string bytes;
  while (!spelling.empty()) {
    const DecodedChar next = decode_utf8(spelling);
    if (!next.valid || next.code >= kAlphabetEnd || kByteOfCode[next.code] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(kByteOfCode[next.code]));
    spelling.remove_prefix(next.length);
  }
  return bytes;
}

}  // namespace spillway
