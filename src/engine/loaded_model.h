#pragma once
// A model ready to run: its file's bytes, shape, weights, tokenizer and chat format. Immutable
// after loading; any thread may read. Everything else in the engine only borrows from it.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/llama_shape.h"
#include "engine/llama_weights.h"
#include "engine/mapped_file.h"
#include "prompt/chat_format.h"
#include "prompt/tokenizer.h"

namespace spillway {

class LoadedModel {
 public:
  struct Options {
    std::string path;
    std::string chat_family;  // see ChatFormat::named; empty: the file's own template
  };

  // Maps and checks the file. Fails with one line that begins with the path.
  static Result<std::unique_ptr<const LoadedModel>> load(const Options& options);

  // The same for bytes in memory, which must outlive the model; the path is only a name here.
  static Result<std::unique_ptr<const LoadedModel>> from_bytes(std::span<const std::byte> bytes,
                                                               const Options& options);

  const LlamaShape& shape() const { return shape_; }
  const LlamaWeights& weights() const { return weights_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const ChatFormat& chat_format() const { return chat_format_; }
  const std::string& name() const { return name_; }

 private:
  LoadedModel(Tokenizer tokenizer, ChatFormat chat_format)
      : tokenizer_(std::move(tokenizer)), chat_format_(std::move(chat_format)) {}

  static Result<std::unique_ptr<LoadedModel>> read(std::span<const std::byte> bytes,
                                                   const Options& options);

  std::unique_ptr<const MappedFile> file_;  // null where the caller owns the bytes
  LlamaShape shape_;
  LlamaWeights weights_;
  Tokenizer tokenizer_;
  ChatFormat chat_format_;
  std::string name_;
};

}  // namespace spillway
