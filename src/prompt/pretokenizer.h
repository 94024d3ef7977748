#pragma once
// Cuts text into the words inside which BPE may merge. Each model family names a regular expression
// for it; these are the same rules as code, one pass, no backtracking, so that hostile text costs
// no more than plain text. Bytes that are not UTF-8 count as symbols. Pure; anybody may call it.

#include <cstddef>
#include <optional>
#include <string_view>

namespace spillway {

// The rules of a pre-tokenizer, as far as the known families differ.
struct PreTokenizer {
  enum class Style {
    kGpt2,    // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
    kSmolLm,  // each \p{N} alone first, then gpt-2 between them
    kLlama3,  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}|
              // ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  };
  Style style = Style::kGpt2;
  int digits = 1;            // kLlama3: most digits in a word
  bool whole_words = false;  // a word that is a token needs no merges

  // Where the word that begins at `at` ends. REQUIRES: at < text.size(), on a word's beginning.
  std::size_t word_end(std::string_view text, std::size_t at) const;
};

// By the value of tokenizer.ggml.pre; none for a name that is not known.
std::optional<PreTokenizer> pre_tokenizer_named(std::string_view name);

// The names that pre_tokenizer_named() knows, for messages.
std::string_view known_pre_tokenizers();

}  // namespace spillway
