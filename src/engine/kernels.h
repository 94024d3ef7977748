#pragma once
// The arithmetic of the engine, once for each kind of processor: plain C++, AVX2, AVX-512 with
// VNNI. All give the same bits: sums run over sixteen fixed lanes in a fixed order, whatever the
// number of rows, so a request's numbers do not depend on its batch or on the machine.
// Stateless; any thread, with its own scratch.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/activations.h"
#include "engine/weight_matrix.h"

namespace spillway {

// Weight rows that a kernel unpacks at once, and keys and values in one page.
inline constexpr std::size_t kWeightRowsAtOnce = 16;
inline constexpr std::size_t kPageSlots = 16;
// Most query heads that share a key-value head within one call of attend().
inline constexpr std::size_t kMaxHeadsAtOnce = 4;

// What a thread needs to unpack weights of up to max_columns.
struct KernelScratch {
  explicit KernelScratch(std::size_t max_columns);

  std::size_t value_stride;
  std::size_t group_stride;
  std::vector<std::uint8_t> values;   // [kWeightRowsAtOnce, value_stride]
  std::vector<float> scales;          // [kWeightRowsAtOnce, group_stride]
  std::vector<float> offsets;         // [kWeightRowsAtOnce, group_stride]
  std::vector<float> floats;          // [kWeightRowsAtOnce, value_stride]
  std::vector<std::uint16_t> halves;  // [2, group_stride]
};

// out[x row, w row] = (or +=) w row . x row, for the rows of w from `begin` to before `end`.
struct Multiplication {
  const WeightMatrix* weights = nullptr;
  const Activations* x = nullptr;  // its integer form must be there when the weights are quantised
  std::size_t begin = 0;
  std::size_t end = 0;
  float* out = nullptr;        // [x rows, out_stride]
  std::size_t out_stride = 0;  // in floats
  bool add = false;
};

// Softmax attention of `heads` query heads that share one key-value head, over paged keys and
// values in 16-bit floats. A page holds the keys as [head_dim, kPageSlots], the values as
// [kPageSlots, head_dim]; a slot whose position is negative or later than the query's is not seen.
struct AttentionPage {
  const std::uint16_t* keys = nullptr;
  const std::uint16_t* values = nullptr;
  const std::int32_t* positions = nullptr;  // [kPageSlots]
};
struct Attention {
  std::span<const AttentionPage> pages;
  std::int32_t position = 0;
  std::size_t heads = 1;         // at most kMaxHeadsAtOnce
  std::size_t head_dim = 0;      // a multiple of 16
  const float* query = nullptr;  // [heads, head_dim]
  float* scores = nullptr;       // scratch: [heads, pages * kPageSlots]
  float* out = nullptr;          // [heads, head_dim]
};

struct Normalisation {
  const float* x = nullptr;
  const float* weight = nullptr;
  std::size_t size = 0;
  float epsilon = 0;
  float* out = nullptr;
};

struct Kernels {
  std::string_view name;
  void (*multiply)(const Multiplication&, KernelScratch&);
  // The weights' values as floats: out[columns].
  void (*dequantise_row)(const WeightMatrix&, std::size_t row, float* out, KernelScratch&);
  // Fills the integer form of a row from its floats. Rows that are no multiple of 32 long have
  // none: no quantised weights fit them.
  void (*quantise_row)(Activations&, std::size_t row);
  void (*attend)(const Attention&);
  // Root-mean-square normalisation (Zhang and Sennrich, 2019).
  void (*normalise)(const Normalisation&);
  // gate[i] = silu(gate[i]) * up[i]
  void (*gated_silu)(float* gate, const float* up, std::size_t size);
  // REQUIRES: size is a multiple of 16.
  void (*to_halves)(const float* in, std::uint16_t* out, std::size_t size);
};

// The best for this machine.
const Kernels& best_kernels();

// All that this machine can run, the plain ones first; for tests and measurements.
std::span<const Kernels* const> runnable_kernels();

}  // namespace spillway
