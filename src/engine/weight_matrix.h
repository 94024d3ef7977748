#pragma once
// A matrix of the model, used in place in the mapped file: [rows, columns], a row's blocks are
// contiguous. Does not own its bytes, which need not be aligned.

#include <cstddef>

#include "engine/tensor_type.h"

namespace spillway {

struct WeightMatrix {
  const std::byte* data = nullptr;
  TensorLayout layout;
  std::size_t rows = 0;
  std::size_t columns = 0;  // a multiple of layout.block_values

  std::size_t row_bytes() const { return columns / layout.block_values * layout.block_bytes; }
  const std::byte* row(std::size_t index) const { return data + index * row_bytes(); }
};

}  // namespace spillway
