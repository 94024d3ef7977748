#include "prompt/token_estimate.h"

#include <cmath>

namespace spillway {
namespace {

enum class Kind { kBlank, kLetter, kDigit, kMark, kWide };

Kind kind_of(unsigned char c) {
  if (c >= 0x80) {
    return Kind::kWide;
  }
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
    return Kind::kLetter;
  }
  if (c >= '0' && c <= '9') {
    return Kind::kDigit;
  }
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' ? Kind::kBlank : Kind::kMark;
}

// Tokens of one run of bytes of a kind.
double cost_of(Kind kind, std::size_t length) {
  const auto n = static_cast<double>(length);
  switch (kind) {
    case Kind::kLetter:
      return length <= 6 ? 1 : 1 + (n - 6) / 5;  // long words are cut
    case Kind::kDigit:
      return n;
    case Kind::kMark:
      return 0.4 + n * 0.5;  // runs such as "();" often are one token
    case Kind::kWide:
      return n / 2.4;  // 3 bytes a CJK character
    case Kind::kBlank:
      return length <= 1 ? 0 : 1;  // one blank belongs to the next word
  }
  return 0;
}

}  // namespace

std::int64_t estimate_tokens(std::string_view text) {
  double tokens = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const Kind kind = kind_of(static_cast<unsigned char>(text[at]));
    std::size_t end = at + 1;
    while (end < text.size() && kind_of(static_cast<unsigned char>(text[end])) == kind) {
      ++end;
    }
    tokens += cost_of(kind, end - at);
    at = end;
  }
  return static_cast<std::int64_t>(std::ceil(tokens));
}

}  // namespace spillway
