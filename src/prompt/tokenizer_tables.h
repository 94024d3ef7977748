#pragma once
// What a Tokenizer looks things up in, built and checked once from a Vocabulary. A part of
// Tokenizer; nobody else uses it. Immutable after building; movable, since nothing points into
// objects that move (the views in `words` point at strings on the heap or at vector elements).

#include <array>
#include <bitset>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "prompt/merges.h"
#include "prompt/pretokenizer.h"
#include "prompt/token.h"
#include "prompt/vocabulary.h"
#include "prompt/word_table.h"

namespace spillway {

struct TokenizerTables {
  PreTokenizer pre;
  std::vector<std::string> bytes;      // by id; empty for control tokens
  std::array<TokenId, 256> of_byte{};  // -1: the vocabulary lacks the byte
  Merges merges;
  WordTable words;  // tokens that their own bytes are encoded to
  std::map<std::string, TokenId, std::less<>> specials;  // control and user-defined, by text
  std::vector<bool> ends;                                // by id
  std::optional<TokenId> opening;                        // BOS, where prompts begin with it

  // User-defined tokens are found in plain text, the longest first.
  WordTable user_defined;
  std::vector<std::size_t> user_lengths;  // bytes, descending, each once
  std::bitset<256> user_first_bytes;

  // What the merges make of one word, put in place of what `out` held.
  void merge_word(std::string_view word, std::vector<TokenId>& out) const;
};

Result<TokenizerTables> build_tokenizer_tables(const Vocabulary& vocabulary);

}  // namespace spillway
