#include "prompt/token_estimate.h"

#include <cmath>
#include <cstddef>

namespace spillway {
namespace {

enum class Kind { kBlank, kLower, kUpper, kDigit, kMark, kWide };

Kind kind_of(char character) {
  const auto c = static_cast<unsigned char>(character);
  if (c >= 0x80) {
    return Kind::kWide;
  }
  if (c >= 'a' && c <= 'z') {
    return Kind::kLower;
  }
  if (c >= 'A' && c <= 'Z') {
    return Kind::kUpper;
  }
  if (c >= '0' && c <= '9') {
    return Kind::kDigit;
  }
  return c == ' ' || (c >= '\t' && c <= '\r') ? Kind::kBlank : Kind::kMark;
}

// Words of human languages are one token up to about six letters and then a token every five;
// what is longer than any word is an identifier or noise, a token every two.
double word_cost(std::size_t length) {
  const auto n = static_cast<double>(length);
  if (n <= 6) {
    return 1.04;
  }
  return n <= 20 ? 1.04 + (n - 6) / 5 : 3.84 + (n - 20) / 2;
}

// Tokens of one run of bytes of a kind.
double cost_of(Kind kind, std::size_t length) {
  const auto n = static_cast<double>(length);
  switch (kind) {
    case Kind::kLower:
    case Kind::kUpper:
      return word_cost(length);
    case Kind::kDigit:
      return n;
    case Kind::kMark:
      return length <= 8 ? 0.4 + n * 0.5
                         : 4.4 + (n - 8) / 8;  // "();" often is one token; so are rules
    case Kind::kWide:
      return n / 2.2;  // a CJK character has 3 bytes
    case Kind::kBlank:
      return length <= 24 ? 1 : 1 + (n - 24) / 8;  // a line break and its indent are one token
  }
  return 0;
}

// A capital begins a word that small letters go on with: "Hello", "helloWorld".
bool goes_on(Kind before, Kind next, std::size_t length) {
  return before == next || (before == Kind::kUpper && next == Kind::kLower && length == 1);
}

}  // namespace

std::int64_t estimate_tokens(std::string_view text) {
  double tokens = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const Kind first = kind_of(text[at]);
    Kind kind = first;
    std::size_t end = at + 1;
    for (; end < text.size(); ++end) {
      const Kind next = kind_of(text[end]);
      if (!goes_on(kind, next, end - at)) {
        break;
      }
      kind = next;
    }
    if (end - at > 1 || text[at] != ' ') {  // one blank belongs to the next word
      tokens += cost_of(first, end - at);
    }
    at = end;
  }
  return static_cast<std::int64_t>(std::ceil(tokens));
}

}  // namespace spillway
