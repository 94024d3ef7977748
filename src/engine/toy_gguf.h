#pragma once
// For tests: writes GGUF files in memory, among them a tiny but complete llama model.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "engine/gguf.h"

namespace spillway {

using Bytes = std::vector<std::byte>;

// Appends GGUF's primitives; the caller decides what is right and what is wrong about them.
class ByteWriter {
 public:
  template <class T>
  ByteWriter& put(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
    return *this;
  }
  ByteWriter& put_bytes(const Bytes& bytes);
  ByteWriter& put_text(std::string_view text);
  ByteWriter& pad_to(std::size_t alignment);
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

// Keys and tensors, written down as a well-formed file.
class GgufWriter {
 public:
  void add_text(std::string_view key, std::string_view value);
  void add_u32(std::string_view key, std::uint32_t value);
  void add_f32(std::string_view key, float value);
  void add_flag(std::string_view key, bool value);
  void add_texts(std::string_view key, const std::vector<std::string>& values);
  void add_i32s(std::string_view key, const std::vector<std::int32_t>& values);
  // `bytes` must be what type and dims say.
  void add_tensor(std::string_view name, TensorType type, std::vector<std::uint64_t> dims,
                  Bytes bytes);
  void remove(std::string_view name);  // the key or tensor of that name
  Bytes file() const;

 private:
  struct Key {
    std::string name;
    Bytes value;  // type and value
  };
  struct Tensor {
    std::string name;
    TensorType type;
    std::vector<std::uint64_t> dims;
    Bytes bytes;
  };
  std::vector<Key> keys_;
  std::vector<Tensor> tensors_;
};

// Blocks of random quants whose scales make the values at most about as large as `size`.
Bytes random_rows(TensorType type, std::size_t values, float size, Rng& rng);

struct ToyModel {
  std::uint32_t layers = 2;
  std::uint32_t width = 64;
  std::uint32_t hidden = 96;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t context = 128;
  TensorType type = TensorType::kQ4_1;
  bool tied = true;
  std::uint64_t seed = 1;
};

// 256 byte tokens, then <|endoftext|>, <|im_start|>, <|im_end|>.
inline constexpr std::size_t kToyVocabulary = 259;

GgufWriter toy_model(const ToyModel& toy = {});

}  // namespace spillway
