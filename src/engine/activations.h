#pragma once
// The vectors that are multiplied by weights, [rows, columns]: as floats, and as 16-bit integers in
// blocks of 32 that share one scale, which is what quantised weights are multiplied with. Sixteen
// bits, because eight change one token in thirty (docs/parity.md); in two planes of bytes, because
// processors multiply bytes fastest. Zero-padded, so that kernels need no tails. One owner; rows
// may be filled by several threads.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway {

// 64 columns of a quantised row.
struct alignas(64) ActivationBlock {
  // The integer is 256 * high + low.
  std::array<std::int8_t, 64> high;
  std::array<std::int8_t, 64> low;
  std::array<float, 16> lane_scales;  // of each four columns: the scale of their 32

  std::int32_t integer(std::size_t i) const { return 256 * high[i] + low[i]; }
};

struct QuantisedRow {
  const ActivationBlock* blocks = nullptr;
  const float* group_sums = nullptr;  // [padded groups]: scale * sum of each sixteen integers
};

constexpr std::size_t column_blocks(std::size_t columns) {
  return (columns + 63) / 64;
}
// Groups of sixteen columns, rounded up to sixteen groups.
constexpr std::size_t padded_groups(std::size_t columns) {
  return (columns + 255) / 256 * 16;
}

class Activations {
 public:
  // Room for any shape up to these.
  Activations(std::size_t max_rows, std::size_t max_columns)
      : floats_(max_rows * max_columns),
        blocks_(max_rows * column_blocks(max_columns)),
        group_sums_(max_rows * padded_groups(max_columns)) {}

  // Sets the shape; the content is undefined afterwards.
  // REQUIRES: within the constructor's bounds.
  void reshape(std::size_t rows, std::size_t columns) {
    rows_ = rows;
    columns_ = columns;
  }

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }

  float* row(std::size_t r) { return floats_.data() + r * columns_; }
  const float* row(std::size_t r) const { return floats_.data() + r * columns_; }

  // The integer form; see Kernels::quantise_row.
  ActivationBlock* blocks(std::size_t r) { return blocks_.data() + r * column_blocks(columns_); }
  float* group_sums(std::size_t r) { return group_sums_.data() + r * padded_groups(columns_); }
  QuantisedRow quantised(std::size_t r) const {
    return {.blocks = blocks_.data() + r * column_blocks(columns_),
            .group_sums = group_sums_.data() + r * padded_groups(columns_)};
  }

 private:
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
  std::vector<float> floats_;
  std::vector<ActivationBlock> blocks_;
  std::vector<float> group_sums_;
};

}  // namespace spillway
