#pragma once
// The tensor types that we read, with GGUF's numbers (ggml.h, enum ggml_type): rows are cut into
// blocks of `block_values` values that take `block_bytes` bytes. Pure; anybody.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace spillway {

enum class TensorType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4K = 12,
  kQ5K = 13,
  kQ6K = 14,
  kBF16 = 30,
};

struct TensorLayout {
  TensorType type = TensorType::kF32;
  std::string_view name;
  std::uint32_t block_values = 1;
  std::uint32_t block_bytes = 4;
  bool quantised = false;  // multiplied in integers, with quantised activations
};

// Nothing for a number that we do not read.
std::optional<TensorLayout> tensor_layout(std::uint32_t type_number);

TensorLayout tensor_layout(TensorType type);

// "F32, F16, Q4_0 ...", for messages.
std::string_view readable_tensor_types();

}  // namespace spillway
