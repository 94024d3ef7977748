#include "prompt/pretokenizer.h"

#include "prompt/unicode.h"

namespace spillway {
namespace {

struct ClassedChar {
  CharClass name = CharClass::kOther;
  std::size_t length = 1;
};

ClassedChar char_at(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) {
    return {.name = char_class(byte), .length = 1};
  }
  const DecodedChar next = decode_utf8(text.substr(at));
  if (!next.valid) {
    return {};
  }
  return {.name = char_class(next.code), .length = next.length};
}

bool is_at(std::string_view text, std::size_t at, CharClass name) {
  return at < text.size() && char_at(text, at).name == name;
}

// The end of the run of one class that begins at `at`; `at` itself where there is none.
std::size_t run_end(std::string_view text, std::size_t at, CharClass name) {
  while (at < text.size()) {
    const ClassedChar next = char_at(text, at);
    if (next.name != name) {
      break;
    }
    at += next.length;
  }
  return at;
}

bool is_line_break(char c) {
  return c == '\r' || c == '\n';
}

// The length of 's 't 're 've 'm 'll 'd at `at`; 0 where there is none.
std::size_t contraction(std::string_view text, std::size_t at, bool any_case) {
  if (text[at] != '\'') {
    return 0;
  }
  const auto letter = [&](std::size_t i) {
    const char c = at + i < text.size() ? text[at + i] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter(1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') {
    return 2;
  }
  const char second = letter(2);
  const bool two =
      ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  return two ? 3 : 0;
}

// \s+(?!\S)|\s+ on a run of white space: the last character is left to the word that follows.
// REQUIRES: the run begins at `at` and ends at `end`. `joined`: a word follows that may take it.
std::size_t space_end(std::string_view text, std::size_t at, std::size_t end, bool joined) {
  if (!joined) {
    return end;
  }
  std::size_t last = end - 1;
  while (last > at && (static_cast<unsigned char>(text[last]) & 0xC0U) == 0x80U) {
    --last;
  }
  return last > at ? last : end;
}

std::size_t gpt2_word_end(std::string_view text, std::size_t at, bool lone_digits) {
  if (const std::size_t length = contraction(text, at, false); length > 0) {
    return at + length;
  }
  const std::size_t begin = text[at] == ' ' ? at + 1 : at;
  if (begin == text.size()) {
    return begin;
  }
  const ClassedChar first = char_at(text, begin);
  if (first.name == CharClass::kNumber && lone_digits) {
    return begin > at ? begin : at + first.length;
  }
  if (first.name != CharClass::kSpace) {
    return run_end(text, begin, first.name);
  }
  const std::size_t end = run_end(text, begin, CharClass::kSpace);
  const bool joined = end < text.size() && !(lone_digits && is_at(text, end, CharClass::kNumber));
  return space_end(text, at, end, joined);
}

// \s*[\r\n]+|\s+(?!\S)|\s+
std::size_t llama3_space_end(std::string_view text, std::size_t at) {
  const std::size_t end = run_end(text, at, CharClass::kSpace);
  for (std::size_t i = end; i > at; --i) {
    if (is_line_break(text[i - 1])) {
      return i;
    }
  }
  return space_end(text, at, end, end < text.size());
}

std::size_t digits_end(std::string_view text, std::size_t at, int most) {
  for (int i = 0; i < most && is_at(text, at, CharClass::kNumber); ++i) {
    at += char_at(text, at).length;
  }
  return at;
}

std::size_t llama3_word_end(std::string_view text, std::size_t at, int digits) {
  if (const std::size_t length = contraction(text, at, true); length > 0) {
    return at + length;
  }
  const ClassedChar first = char_at(text, at);
  if (first.name == CharClass::kLetter) {
    return run_end(text, at, CharClass::kLetter);
  }
  if (first.name == CharClass::kNumber) {
    return digits_end(text, at, digits);
  }
  if (!is_line_break(text[at]) && is_at(text, at + first.length, CharClass::kLetter)) {
    return run_end(text, at + first.length, CharClass::kLetter);
  }
  const std::size_t begin = text[at] == ' ' ? at + 1 : at;
  if (!is_at(text, begin, CharClass::kOther)) {
    return llama3_space_end(text, at);
  }
  std::size_t end = run_end(text, begin, CharClass::kOther);
  while (end < text.size() && is_line_break(text[end])) {
    ++end;
  }
  return end;
}

}  // namespace

std::size_t PreTokenizer::word_end(std::string_view text, std::size_t at) const {
  if (style == Style::kLlama3) {
    return llama3_word_end(text, at, digits);
  }
  return gpt2_word_end(text, at, style == Style::kSmolLm);
}

std::optional<PreTokenizer> pre_tokenizer_named(std::string_view name) {
  using Style = PreTokenizer::Style;
  if (name == "smollm") {
    return PreTokenizer{.style = Style::kSmolLm};
  }
  if (name == "gpt-2") {
    return PreTokenizer{.style = Style::kGpt2};
  }
  if (name == "llama-bpe" || name == "llama3" || name == "llama-v3") {
    return PreTokenizer{.style = Style::kLlama3, .digits = 3, .whole_words = true};
  }
  if (name == "qwen2") {
    return PreTokenizer{.style = Style::kLlama3, .digits = 1};
  }
  return std::nullopt;
}

std::string_view known_pre_tokenizers() {
  return "smollm, gpt-2, llama-bpe, qwen2";
}

}  // namespace spillway
