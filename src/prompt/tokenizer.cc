#include "prompt/tokenizer.h"

#include <optional>
#include <utility>

#include "prompt/tokenizer_tables.h"

namespace spillway {
namespace {

struct Found {
  TokenId token = 0;
  std::size_t length = 0;
};

// REQUIRES: rest is not empty.
std::optional<Found> user_defined_at(const TokenizerTables& tables, std::string_view rest) {
  if (!tables.user_first_bytes.test(static_cast<unsigned char>(rest[0]))) {
    return std::nullopt;
  }
  for (const std::size_t length : tables.user_lengths) {
    if (length > rest.size()) {
      continue;
    }
    if (const TokenId id = tables.user_defined.find(rest.substr(0, length)); id >= 0) {
      return Found{.token = id, .length = length};
    }
  }
  return std::nullopt;
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerTables> tables) : tables_(std::move(tables)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::create(const Vocabulary& vocabulary) {
  auto tables = build_tokenizer_tables(vocabulary);
  if (!tables) {
    return tables.error();
  }
  return Tokenizer(std::make_unique<const TokenizerTables>(std::move(*tables)));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text) const {
  std::vector<TokenId> out;
  append_text(text, out);
  return out;
}

std::vector<TokenId> Tokenizer::encode(std::span<const Segment> segments) const {
  std::vector<TokenId> out;
  const auto none = tables_->specials.end();
  for (const Segment& segment : segments) {
    const auto special = segment.special ? tables_->specials.find(segment.text) : none;
    if (special != none) {
      out.push_back(special->second);
    } else {
      append_text(segment.text, out);
    }
  }
  if (tables_->opening && (out.empty() || out.front() != *tables_->opening)) {
    out.insert(out.begin(), *tables_->opening);
  }
  return out;
}

void Tokenizer::append_text(std::string_view text, std::vector<TokenId>& out) const {
  if (tables_->user_lengths.empty()) {
    append_words(text, out);
    return;
  }
  std::size_t plain = 0;  // where the text begins that is not encoded yet
  std::size_t at = 0;
  while (at < text.size()) {
    const auto found = user_defined_at(*tables_, text.substr(at));
    if (!found) {
      ++at;
      continue;
    }
    append_words(text.substr(plain, at - plain), out);
    out.push_back(found->token);
    at += found->length;
    plain = at;
  }
  append_words(text.substr(plain), out);
}

void Tokenizer::append_words(std::string_view text, std::vector<TokenId>& out) const {
  std::vector<TokenId> scratch;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = tables_->pre.word_end(text, at);
    const std::string_view word = text.substr(at, end - at);
    if (const TokenId whole = tables_->words.find(word); whole >= 0) {
      out.push_back(whole);
    } else {
      tables_->merge_word(word, scratch);
      out.insert(out.end(), scratch.begin(), scratch.end());
    }
    at = end;
  }
}

std::string_view Tokenizer::bytes(TokenId token) const {
  const auto index = static_cast<std::size_t>(token);
  return token >= 0 && index < size() ? std::string_view(tables_->bytes[index])
                                      : std::string_view();
}

bool Tokenizer::is_end(TokenId token) const {
  const auto index = static_cast<std::size_t>(token);
  return token >= 0 && index < size() && tables_->ends[index];
}

std::size_t Tokenizer::size() const {
  return tables_->bytes.size();
}

}  // namespace spillway
