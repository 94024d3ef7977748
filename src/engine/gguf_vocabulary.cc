#include "engine/gguf_vocabulary.h"

#include <limits>
#include <utility>

#include <fmt/format.h>

namespace spillway {
namespace {

Result<std::optional<TokenId>> token_id(const GgufFile& file, std::string_view key) {
  if (file.value(key) == nullptr) {
    return std::optional<TokenId>();
  }
  const auto id = file.integer(key);
  if (!id) {
    return id.error();
  }
  if (*id > static_cast<std::uint64_t>(std::numeric_limits<TokenId>::max())) {
    return Error{ErrorCode::kInvalid, fmt::format("key {} is {}: no token", key, *id)};
  }
  return std::optional<TokenId>(static_cast<TokenId>(*id));
}

Status read_strings(const GgufFile& file, Vocabulary& vocabulary) {
  const auto model = file.text("tokenizer.ggml.model");
  if (!model) {
    return Error{ErrorCode::kInvalid, "it brings no tokenizer: " + model.error().message};
  }
  vocabulary.model = *model;
  if (file.value("tokenizer.ggml.pre") != nullptr) {
    const auto pre = file.text("tokenizer.ggml.pre");
    if (!pre) {
      return pre.error();
    }
    vocabulary.pre = *pre;
  }
  auto tokens = file.texts("tokenizer.ggml.tokens");
  if (!tokens) {
    return Error{ErrorCode::kInvalid, "it brings no tokenizer: " + tokens.error().message};
  }
  vocabulary.tokens = *std::move(tokens);
  if (file.value("tokenizer.ggml.merges") != nullptr) {
    auto merges = file.texts("tokenizer.ggml.merges");
    if (!merges) {
      return merges.error();
    }
    vocabulary.merges = *std::move(merges);
  }
  if (file.value("tokenizer.ggml.token_type") != nullptr) {
    auto types = file.integers("tokenizer.ggml.token_type");
    if (!types) {
      return types.error();
    }
    vocabulary.types = *std::move(types);
  }
  return Ok{};
}

}  // namespace

Result<Vocabulary> read_vocabulary(const GgufFile& file) {
  Vocabulary vocabulary;
  if (const Status read = read_strings(file, vocabulary); !read) {
    return read.error();
  }
  const std::pair<std::string_view, std::optional<TokenId>*> ids[] = {
      {"tokenizer.ggml.bos_token_id", &vocabulary.bos},
      {"tokenizer.ggml.eos_token_id", &vocabulary.eos},
      {"tokenizer.ggml.eot_token_id", &vocabulary.eot},
  };
  for (const auto& [key, id] : ids) {
    const auto read = token_id(file, key);
    if (!read) {
      return read.error();
    }
    *id = *read;
  }
  if (file.value("tokenizer.ggml.add_bos_token") != nullptr) {
    const auto add_bos = file.flag("tokenizer.ggml.add_bos_token");
    if (!add_bos) {
      return add_bos.error();
    }
    vocabulary.add_bos = *add_bos;
  } else {
    // Llama 3's converter leaves the key out and means true.
    vocabulary.add_bos = vocabulary.pre == "llama-bpe" && vocabulary.bos.has_value();
  }
  return vocabulary;
}

Result<ChatFormat> read_chat_format(const GgufFile& file, const std::string& family) {
  if (!family.empty()) {
    return ChatFormat::named(family);
  }
  const auto text = file.text("tokenizer.chat_template");
  if (!text) {
    return Error{ErrorCode::kInvalid,
                 text.error().message + ": name the chat family (chatml or llama-3)"};
  }
  return ChatFormat::from_template(*text);
}

}  // namespace spillway
