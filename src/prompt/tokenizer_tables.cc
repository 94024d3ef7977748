#include "prompt/tokenizer_tables.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "prompt/byte_alphabet.h"

namespace spillway {
namespace {

// Files name one or two end tokens; chat models end a turn with any of these.
constexpr std::string_view kEndTexts[] = {
    "<|im_end|>",      "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|eom_id|>",
    "<|end_of_turn|>", "<end_of_turn>", "<|end|>",    "<|eot|>",         "</s>"};

Error invalid(std::string message) {
  return {.code = ErrorCode::kInvalid, .message = std::move(message)};
}

std::int32_t type_of(const Vocabulary& vocabulary, std::size_t id) {
  return vocabulary.types.empty() ? kNormalToken : vocabulary.types[id];
}

Status check_shape(const Vocabulary& vocabulary) {
  if (vocabulary.model != "gpt2") {
    return invalid(
        fmt::format("tokenizer.ggml.model is \"{}\"; only \"gpt2\" (byte-level BPE) can be read",
                    vocabulary.model));
  }
  const std::size_t size = vocabulary.tokens.size();
  constexpr std::size_t kMost = std::numeric_limits<TokenId>::max() / 2;
  if (size == 0 || size > kMost || vocabulary.merges.size() > kMost) {
    return invalid(
        fmt::format("tokenizer.ggml.tokens has {} entries and tokenizer.ggml.merges {}; "
                    "a vocabulary has 1 to {}",
                    size, vocabulary.merges.size(), kMost));
  }
  if (!vocabulary.types.empty() && vocabulary.types.size() != size) {
    return invalid(fmt::format("tokenizer.ggml.token_type has {} entries for {} tokens",
                               vocabulary.types.size(), size));
  }
  const std::pair<const char*, std::optional<TokenId>> named[] = {
      {"bos", vocabulary.bos}, {"eos", vocabulary.eos}, {"eot", vocabulary.eot}};
  for (const auto& [name, id] : named) {
    if (id && (*id < 0 || static_cast<std::size_t>(*id) >= size)) {
      return invalid(fmt::format("tokenizer.ggml.{}_token_id is {}; the vocabulary has {} tokens",
                                 name, *id, size));
    }
  }
  if (vocabulary.add_bos && !vocabulary.bos) {
    return invalid("tokenizer.ggml.add_bos_token is set without tokenizer.ggml.bos_token_id");
  }
  return Ok{};
}

Result<Merges> read_merges(const Vocabulary& vocabulary, const WordTable& spelled) {
  std::vector<Merges::Rule> rules;
  rules.reserve(vocabulary.merges.size());
  for (std::size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const std::string_view text = vocabulary.merges[i];
    const std::size_t blank = text.find(' ', 1);
    if (blank == std::string_view::npos) {
      return invalid(
          fmt::format("tokenizer.ggml.merges[{}] is \"{}\"; two parts are needed", i, text));
    }
    const std::string_view left = text.substr(0, blank);
    const std::string_view right = text.substr(blank + 1);
    const Merges::Rule rule{.left = spelled.find(left),
                            .right = spelled.find(right),
                            .joined = spelled.find(fmt::format("{}{}", left, right))};
    if (rule.left < 0 || rule.right < 0 || rule.joined < 0) {
      return invalid(
          fmt::format("tokenizer.ggml.merges[{}] is \"{}\"; a part of it or the whole "
                      "is not in tokenizer.ggml.tokens",
                      i, text));
    }
    rules.push_back(rule);
  }
  return Merges(rules);
}

// Bytes, special texts, user-defined tokens and ends, by id.
void read_tokens(const Vocabulary& vocabulary, TokenizerTables& tables) {
  const std::size_t size = vocabulary.tokens.size();
  tables.bytes.resize(size);
  tables.ends.resize(size);
  tables.user_defined = WordTable(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::string& text = vocabulary.tokens[i];
    const auto id = static_cast<TokenId>(i);
    const std::int32_t type = type_of(vocabulary, i);
    if (type == kControlToken || type == kUserDefinedToken) {
      tables.specials.try_emplace(text, id);
      tables.ends[i] = std::ranges::find(kEndTexts, text) != std::end(kEndTexts);
    } else {
      // A token outside the byte alphabet is never the outcome of merges; it reads as it is
      // spelled.
      tables.bytes[i] = bytes_of_spelling(text).value_or(text);
    }
    if (type == kUserDefinedToken && !text.empty()) {
      tables.bytes[i] = text;
      tables.user_defined.add(tables.bytes[i], id);
      tables.user_lengths.push_back(text.size());
      tables.user_first_bytes.set(static_cast<unsigned char>(text[0]));
    }
  }
  std::ranges::sort(tables.user_lengths, std::greater<>());
  const auto repeated = std::ranges::unique(tables.user_lengths);
  tables.user_lengths.erase(repeated.begin(), repeated.end());
  for (const std::optional<TokenId>& end : {vocabulary.eos, vocabulary.eot}) {
    if (end) {
      tables.ends[static_cast<std::size_t>(*end)] = true;
    }
  }
}

// Merging is a function of the word alone, so what it makes of each token is found out once.
void read_words(const Vocabulary& vocabulary, TokenizerTables& tables) {
  WordTable words(vocabulary.tokens.size());
  std::vector<TokenId> encoded;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (type_of(vocabulary, i) != kNormalToken || tables.bytes[i].empty()) {
      continue;
    }
    tables.merge_word(tables.bytes[i], encoded);
    if (tables.pre.whole_words || (encoded.size() == 1 && encoded[0] == id)) {
      words.add(tables.bytes[i], id);
    }
  }
  tables.words = std::move(words);
}

}  // namespace

void TokenizerTables::merge_word(std::string_view word, std::vector<TokenId>& out) const {
  out.clear();
  for (const char c : word) {
    out.push_back(of_byte[static_cast<unsigned char>(c)]);
  }
  merges.join(out);
  std::erase(out, Merges::kNoToken);
}

Result<TokenizerTables> build_tokenizer_tables(const Vocabulary& vocabulary) {
  if (const Status shape = check_shape(vocabulary); !shape) {
    return shape.error();
  }
  const auto pre = pre_tokenizer_named(vocabulary.pre);
  if (!pre) {
    return invalid(fmt::format("tokenizer.ggml.pre is \"{}\"; known are {}", vocabulary.pre,
                               known_pre_tokenizers()));
  }
  WordTable spelled(vocabulary.tokens.size());
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::int32_t type = type_of(vocabulary, i);
    if (type != kControlToken && type != kUserDefinedToken) {
      spelled.add(vocabulary.tokens[i], static_cast<TokenId>(i));
    }
  }
  auto merges = read_merges(vocabulary, spelled);
  if (!merges) {
    return merges.error();
  }

  TokenizerTables tables;
  tables.pre = *pre;
  tables.merges = std::move(*merges);
  for (std::size_t byte = 0; byte < tables.of_byte.size(); ++byte) {
    tables.of_byte[byte] = spelled.find(byte_spellings()[byte]);
  }
  if (vocabulary.add_bos) {
    tables.opening = vocabulary.bos;
  }
  read_tokens(vocabulary, tables);
  read_words(vocabulary, tables);
  return tables;
}

}  // namespace spillway
