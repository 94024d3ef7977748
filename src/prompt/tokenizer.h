#pragma once
// A model's tokenizer: byte-level BPE (Sennrich et al. 2016; GPT-2's byte alphabet). Text is cut
// into words by the vocabulary's pre-tokenizer, each word's bytes are joined by the merges, best
// rank first, leftmost first. Linear in the text but for a logarithm in the longest word.
// Immutable after create(): any thread may use one object at the same time.

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "prompt/segment.h"
#include "prompt/token.h"
#include "prompt/vocabulary.h"

namespace spillway {

struct TokenizerTables;

class Tokenizer {
 public:
  // Fails, naming the key, when the model or pre-tokenizer is unknown, arrays disagree in length,
  // an id is out of range or a merge joins what is not in the vocabulary.
  static Result<Tokenizer> create(const Vocabulary& vocabulary);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Plain text: control tokens spelled in it are NOT recognised, user-defined ones are; no BOS.
  // Bytes for which the vocabulary has no token (some vocabularies lack bytes that do not occur in
  // UTF-8) are left out; all others survive, also where the text is not valid UTF-8.
  std::vector<TokenId> encode(std::string_view text) const;

  // A rendered prompt. A special segment that the vocabulary does not know is taken as plain text.
  // Begins with BOS where the vocabulary asks for it and the segments do not bring it.
  std::vector<TokenId> encode(std::span<const Segment> segments) const;

  // What the token stands for; may be part of a UTF-8 character (see TextStream). Empty for control
  // tokens and for ids outside the vocabulary. Valid as long as the tokenizer.
  std::string_view bytes(TokenId token) const;

  // True for tokens that end a reply: eos, eot, "<|im_end|>" and its like.
  bool is_end(TokenId token) const;

  // Ids are 0 .. size() - 1.
  std::size_t size() const;

 private:
  explicit Tokenizer(std::unique_ptr<const TokenizerTables> tables);
  void append_text(std::string_view text, std::vector<TokenId>& out) const;
  void append_words(std::string_view text, std::vector<TokenId>& out) const;

  std::unique_ptr<const TokenizerTables> tables_;
};

}  // namespace spillway
