#pragma once
// Reads a GGUF file (versions 2 and 3, little-endian; ggml/docs/gguf.md): metadata by key, tensors
// by name, all as views into the caller's bytes. The file is hostile until proven otherwise: every
// count, length, offset and dimension is checked against the bytes that are there before it is used
// or allocated for. Pure; a GgufFile is immutable and must not outlive its bytes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/tensor_type.h"

namespace spillway {

enum class GgufType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// One metadata value: its checked bytes, not yet decoded. For an array, `element` and `count` say
// what `bytes` holds.
struct GgufValue {
  GgufType type = GgufType::kU8;
  GgufType element = GgufType::kU8;
  std::uint64_t count = 0;
  std::span<const std::byte> bytes;
};

struct GgufTensor {
  std::string_view name;
  TensorLayout layout;
  std::array<std::uint64_t, 4> dims{1, 1, 1, 1};  // dims[0]: length of a row
  std::uint32_t dim_count = 1;
  std::span<const std::byte> bytes;  // exactly the tensor
};

class GgufFile {
 public:
  // Null when there is none.
  const GgufTensor* tensor(std::string_view name) const;
  const GgufValue* value(std::string_view key) const;

  // The value under the key. Fails, naming the key, when it is missing, of another kind, or (for
  // integer) negative or beyond 2^53.
  Result<std::string_view> text(std::string_view key) const;
  Result<std::uint64_t> integer(std::string_view key) const;
  Result<double> number(std::string_view key) const;
  Result<bool> flag(std::string_view key) const;
  Result<std::vector<std::string>> texts(std::string_view key) const;
  Result<std::vector<std::int32_t>> integers(std::string_view key) const;

  std::size_t tensor_count() const { return tensors_.size(); }

 private:
  friend class GgufReader;
  std::map<std::string_view, GgufValue> values_;
  std::map<std::string_view, GgufTensor> tensors_;
};

// The entry that fuzzers call: never crashes, never allocates more than a small multiple of the
// input. The error says what is wrong in one line, without the file's name.
Result<GgufFile> parse_gguf(std::span<const std::byte> bytes);

}  // namespace spillway
