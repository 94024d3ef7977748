#include "engine/tensor_type.h"

#include <array>

#include "base/check.h"

namespace spillway {
namespace {

constexpr std::array<TensorLayout, 11> kLayouts{{
    {TensorType::kF32, "F32", 1, 4, false},
    {TensorType::kF16, "F16", 1, 2, false},
    {TensorType::kBF16, "BF16", 1, 2, false},
    {TensorType::kQ4_0, "Q4_0", 32, 18, true},
    {TensorType::kQ4_1, "Q4_1", 32, 20, true},
    {TensorType::kQ5_0, "Q5_0", 32, 22, true},
    {TensorType::kQ5_1, "Q5_1", 32, 24, true},
    {TensorType::kQ8_0, "Q8_0", 32, 34, true},
    {TensorType::kQ4K, "Q4_K", 256, 144, true},
    {TensorType::kQ5K, "Q5_K", 256, 176, true},
    {TensorType::kQ6K, "Q6_K", 256, 210, true},
}};

}  // namespace

std::optional<TensorLayout> tensor_layout(std::uint32_t type_number) {
  for (const TensorLayout& layout : kLayouts) {
    if (static_cast<std::uint32_t>(layout.type) == type_number) {
      return layout;
    }
  }
  return std::nullopt;
}

TensorLayout tensor_layout(TensorType type) {
  const auto layout = tensor_layout(static_cast<std::uint32_t>(type));
  CHECK(layout.has_value());
  return *layout;
}

std::string_view readable_tensor_types() {
  return "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K";
}

}  // namespace spillway
