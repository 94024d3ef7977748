#include "engine/loaded_model.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "engine/gguf.h"
#include "engine/gguf_vocabulary.h"

namespace spillway {
namespace {

// Messages may quote the file, which may hold anything: one line of bounded length comes out.
Error in_file(const std::string& path, const Error& error) {
  constexpr std::size_t kLongest = 400;
  std::string message = error.message.substr(0, kLongest);
  std::ranges::replace_if(message, [](char c) { return c >= 0 && c < ' '; }, '?');
  return {error.code, fmt::format("{}: {}", path, message)};
}

// General.name, else the file's own name without folders and suffix.
std::string model_name(const GgufFile& file, const std::string& path) {
  const auto name = file.text("general.name");
  if (name && !name->empty()) {
    return std::string(*name);
  }
  std::string base = path.substr(path.find_last_of('/') + 1);
  return base.substr(0, base.find_last_of('.'));
}

}  // namespace

Result<std::unique_ptr<LoadedModel>> LoadedModel::read(std::span<const std::byte> bytes,
                                                       const Options& options) {
  const auto file = parse_gguf(bytes);
  if (!file) {
    return in_file(options.path, file.error());
  }
  auto shape = read_llama_shape(*file);
  if (!shape) {
    return in_file(options.path, shape.error());
  }
  auto weights = read_llama_weights(*file, *shape);
  if (!weights) {
    return in_file(options.path, weights.error());
  }
  const auto vocabulary = read_vocabulary(*file);
  if (!vocabulary) {
    return in_file(options.path, vocabulary.error());
  }
  if (vocabulary->tokens.size() != shape->vocabulary) {
    return in_file(options.path,
                   {ErrorCode::kInvalid,
                    fmt::format("the tokenizer has {} tokens, tensor token_embd.weight {} rows",
                                vocabulary->tokens.size(), shape->vocabulary)});
  }
  auto tokenizer = Tokenizer::create(*vocabulary);
  if (!tokenizer) {
    return in_file(options.path, tokenizer.error());
  }
  auto chat_format = read_chat_format(*file, options.chat_family);
  if (!chat_format) {
    return in_file(options.path, chat_format.error());
  }
  std::unique_ptr<LoadedModel> model(
      new LoadedModel(*std::move(tokenizer), *std::move(chat_format)));
  model->shape_ = *shape;
  model->weights_ = *std::move(weights);
  model->name_ = model_name(*file, options.path);
  return model;
}

Result<std::unique_ptr<const LoadedModel>> LoadedModel::load(const Options& options) {
  auto file = MappedFile::open(options.path);
  if (!file) {
    return file.error();
  }
  auto owned = std::make_unique<const MappedFile>(*std::move(file));
  auto model = read(owned->bytes(), options);
  if (!model) {
    return model.error();
  }
  (*model)->file_ = std::move(owned);
  return std::unique_ptr<const LoadedModel>(*std::move(model));
}

Result<std::unique_ptr<const LoadedModel>> LoadedModel::from_bytes(std::span<const std::byte> bytes,
                                                                   const Options& options) {
  auto model = read(bytes, options);
  if (!model) {
    return model.error();
  }
  return std::unique_ptr<const LoadedModel>(*std::move(model));
}

}  // namespace spillway
