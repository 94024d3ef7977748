#include "engine/kernels.h"

#include <bit>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "engine/half.h"
#include "engine/toy_gguf.h"

namespace spillway {
namespace {

constexpr TensorType kTypes[] = {TensorType::kF32,  TensorType::kF16,  TensorType::kBF16,
                                 TensorType::kQ4_0, TensorType::kQ4_1, TensorType::kQ5_0,
                                 TensorType::kQ5_1, TensorType::kQ8_0, TensorType::kQ4K,
                                 TensorType::kQ5K,  TensorType::kQ6K};

std::uint32_t byte_at(const Bytes& bytes, std::size_t at) {
  return static_cast<std::uint32_t>(bytes[at]);
}

double half_at(const Bytes& bytes, std::size_t at) {
  return half_to_float(
      static_cast<std::uint16_t>(byte_at(bytes, at) | byte_at(bytes, at + 1) << 8U));
}

std::uint32_t nibble(const Bytes& bytes, std::size_t at, bool high) {
  return high ? byte_at(bytes, at) >> 4U : byte_at(bytes, at) & 15U;
}

// Value `i` of a 32-value block at `at`, straight from the layouts of ggml-common.h.
double small_block_value(TensorType type, const Bytes& bytes, std::size_t at, std::size_t i) {
  const double d = half_at(bytes, at);
  const bool high = i >= 16;
  const std::size_t j = i % 16;
  const auto fifth = [&](std::size_t from) {
    return (byte_at(bytes, from + i / 8) >> (i % 8) & 1U) << 4U;
  };
  switch (type) {
    case TensorType::kQ4_0:
      return d * (static_cast<double>(nibble(bytes, at + 2 + j, high)) - 8);
    case TensorType::kQ4_1:
      return d * nibble(bytes, at + 4 + j, high) + half_at(bytes, at + 2);
    case TensorType::kQ5_0:
      return d * (static_cast<double>(nibble(bytes, at + 6 + j, high) | fifth(at + 2)) - 16);
    case TensorType::kQ5_1:
      return d * (nibble(bytes, at + 8 + j, high) | fifth(at + 4)) + half_at(bytes, at + 2);
    default:
      return d * static_cast<std::int8_t>(byte_at(bytes, at + 2 + i));
  }
}

// The 6-bit scale and minimum of sub-block j.
std::pair<double, double> k_scale(const Bytes& bytes, std::size_t at, std::size_t j) {
  const auto q = [&](std::size_t i) { return byte_at(bytes, at + 4 + i); };
  if (j < 4) {
    return {q(j) & 63U, q(j + 4) & 63U};
  }
  return {(q(j + 4) & 15U) | (q(j - 4) >> 6U << 4U), (q(j + 4) >> 4U) | (q(j) >> 6U << 4U)};
}

double k_block_value(TensorType type, const Bytes& bytes, std::size_t at, std::size_t i) {
  if (type == TensorType::kQ6K) {
    const std::size_t half = i / 128;
    const std::size_t quarter = i % 128 / 32;
    const std::size_t l = i % 32;
    const std::uint32_t low = nibble(bytes, at + 64 * half + (quarter % 2) * 32 + l, quarter >= 2);
    const std::uint32_t high = byte_at(bytes, at + 128 + 32 * half + l) >> (2 * quarter) & 3U;
    const auto scale = static_cast<std::int8_t>(byte_at(bytes, at + 192 + i / 16));
    return half_at(bytes, at + 208) * scale * (static_cast<double>(low | high << 4U) - 32);
  }
  const auto [scale, minimum] = k_scale(bytes, at, i / 32);
  const std::size_t quants = type == TensorType::kQ5K ? 48 : 16;
  std::uint32_t q = nibble(bytes, at + quants + i / 64 * 32 + i % 32, i / 32 % 2 == 1);
  if (type == TensorType::kQ5K) {
    q |= (byte_at(bytes, at + 16 + i % 32) >> (i / 32) & 1U) << 4U;
  }
  return half_at(bytes, at) * scale * q - half_at(bytes, at + 2) * minimum;
}

double value_at(TensorType type, const Bytes& bytes, std::size_t i) {
  const TensorLayout layout = tensor_layout(type);
  const std::size_t at = i / layout.block_values * layout.block_bytes;
  if (layout.block_values == 256) {
    return k_block_value(type, bytes, at, i % 256);
  }
  if (layout.block_values == 32) {
    return small_block_value(type, bytes, at, i % 32);
  }
  if (type == TensorType::kF32) {
    float value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    return value;
  }
  const auto bits = static_cast<std::uint16_t>(byte_at(bytes, at) | byte_at(bytes, at + 1) << 8U);
  return type == TensorType::kF16 ? half_to_float(bits) : bfloat_to_float(bits);
}

struct Matrix {
  Matrix(TensorType type, std::size_t rows, std::size_t columns, Rng& rng)
      : bytes(random_rows(type, rows * columns, 1.0F, rng)),
        weights{
            .data = bytes.data(), .layout = tensor_layout(type), .rows = rows, .columns = columns} {
  }

  Bytes bytes;
  WeightMatrix weights;
};

Activations random_activations(std::size_t rows, std::size_t columns, Rng& rng,
                               const Kernels& kernels) {
  Activations x(rows, columns);
  x.reshape(rows, columns);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < columns; ++i) {
      x.row(r)[i] = static_cast<float>(rng.uniform(-2.0, 2.0));
    }
    kernels.quantise_row(x, r);
  }
  return x;
}

std::vector<float> product(const Kernels& kernels, const WeightMatrix& weights,
                           const Activations& x) {
  std::vector<float> out(x.rows() * weights.rows);
  KernelScratch scratch(weights.columns);
  // What earlier rows leave in the scratch must not matter.
  std::ranges::fill(scratch.scales, NAN);
  std::ranges::fill(scratch.offsets, NAN);
  std::ranges::fill(scratch.halves, std::uint16_t{0x7e00});
  kernels.multiply({.weights = &weights,
                    .x = &x,
                    .begin = 0,
                    .end = weights.rows,
                    .out = out.data(),
                    .out_stride = weights.rows},
                   scratch);
  return out;
}

TEST(Kernels, UnpackEveryTypeAsItsLayoutSays) {
  Rng rng(3);
  for (const Kernels* kernels : runnable_kernels()) {
    for (const TensorType type : kTypes) {
      SCOPED_TRACE(std::string(kernels->name) + " " + std::string(tensor_layout(type).name));
      const Matrix m(type, 3, 512, rng);
      KernelScratch scratch(512);
      std::vector<float> row(512);

      for (std::size_t r = 0; r < 3; ++r) {
        kernels->dequantise_row(m.weights, r, row.data(), scratch);
        for (std::size_t i = 0; i < row.size(); ++i) {
          ASSERT_NEAR(row[i], value_at(type, m.bytes, r * 512 + i), 2e-6) << r << " " << i;
        }
      }
    }
  }
}

// Exact products of the quantised activations: what is lost is float rounding only.
TEST(Kernels, MultiplyAsDoublePrecisionDoes) {
  Rng rng(4);
  for (const Kernels* kernels : runnable_kernels()) {
    for (const TensorType type : kTypes) {
      SCOPED_TRACE(std::string(kernels->name) + " " + std::string(tensor_layout(type).name));
      const Matrix m(type, 5, 256, rng);
      const Activations x = random_activations(3, 256, rng, *kernels);

      const std::vector<float> out = product(*kernels, m.weights, x);

      for (std::size_t r = 0; r < 3; ++r) {
        for (std::size_t w = 0; w < 5; ++w) {
          double sum = 0;
          for (std::size_t i = 0; i < 256; ++i) {
            const ActivationBlock& block = x.quantised(r).blocks[i / 64];
            const double quantised = double{block.lane_scales[i % 64 / 4]} * block.integer(i % 64);
            const double a = m.weights.layout.quantised ? quantised : double{x.row(r)[i]};
            sum += a * value_at(type, m.bytes, w * 256 + i);
          }
          ASSERT_NEAR(out[r * 5 + w], sum, 2e-3) << r << " " << w;
        }
      }
    }
  }
}

TEST(Kernels, QuantiseToWithinHalfAStep) {
  Rng rng(5);
  for (const Kernels* kernels : runnable_kernels()) {
    SCOPED_TRACE(kernels->name);
    const Activations x = random_activations(1, 96, rng, *kernels);

    for (std::size_t i = 0; i < 96; ++i) {
      const ActivationBlock& block = x.quantised(0).blocks[i / 64];
      const float scale = block.lane_scales[i % 64 / 4];
      EXPECT_NEAR(scale * static_cast<float>(block.integer(i % 64)), x.row(0)[i], 0.5001F * scale)
          << i;
      EXPECT_LT(scale, 2.0F / 32000);
    }
  }
}

TEST(Kernels, QuantiseZerosAndTinyValuesWithoutTrouble) {
  for (const Kernels* kernels : runnable_kernels()) {
    for (const float value : {0.0F, 1e-44F, -1e-38F, 3e38F, INFINITY, NAN}) {
      SCOPED_TRACE(std::string(kernels->name) + " " + std::to_string(value));
      Activations x(1, 32);
      x.reshape(1, 32);
      std::fill_n(x.row(0), 32, value);

      kernels->quantise_row(x, 0);

      if (std::fabs(value) < 1.0F) {
        const ActivationBlock& block = x.quantised(0).blocks[0];
        EXPECT_NEAR(block.lane_scales[0] * static_cast<float>(block.integer(0)), value, 1e-33);
      }
    }
  }
}

// A row's result may depend neither on the rows beside it nor on how the weights were cut.
TEST(Kernels, GiveARowTheSameBitsAloneAndInAnyBatch) {
  Rng rng(6);
  for (const Kernels* kernels : runnable_kernels()) {
    for (const TensorType type : {TensorType::kQ4_1, TensorType::kQ8_0, TensorType::kF16}) {
      SCOPED_TRACE(std::string(kernels->name) + " " + std::string(tensor_layout(type).name));
      const Matrix m(type, 37, 96, rng);
      const Activations all = random_activations(23, 96, rng, *kernels);
      const std::vector<float> together = product(*kernels, m.weights, all);

      for (std::size_t r = 0; r < all.rows(); ++r) {
        Activations one(1, 96);
        one.reshape(1, 96);
        std::copy_n(all.row(r), 96, one.row(0));
        kernels->quantise_row(one, 0);
        const std::vector<float> alone = product(*kernels, m.weights, one);
        ASSERT_EQ(0, std::memcmp(alone.data(), together.data() + r * 37, 37 * sizeof(float))) << r;
      }
    }
  }
}

TEST(Kernels, GiveTheSameBitsOnEveryProcessor) {
  const Kernels& portable = *runnable_kernels().front();
  for (const Kernels* kernels : runnable_kernels()) {
    for (const TensorType type : kTypes) {
      for (const std::size_t columns : {256U, 768U}) {
        SCOPED_TRACE(std::string(kernels->name) + " " + std::string(tensor_layout(type).name));
        Rng rng(7);
        const Matrix m(type, 19, columns, rng);
        Rng same(8);
        const Activations x = random_activations(11, columns, same, portable);
        Rng again(8);
        const Activations y = random_activations(11, columns, again, *kernels);

        EXPECT_EQ(product(portable, m.weights, x), product(*kernels, m.weights, y));
      }
    }
  }
}

TEST(Kernels, AddToWhatIsThereWhereAsked) {
  Rng rng(9);
  const Kernels& kernels = best_kernels();
  const Matrix m(TensorType::kQ4_0, 4, 64, rng);
  const Activations x = random_activations(2, 64, rng, kernels);
  const std::vector<float> plain = product(kernels, m.weights, x);
  std::vector<float> out(8, 1.5F);
  KernelScratch scratch(64);

  kernels.multiply({.weights = &m.weights,
                    .x = &x,
                    .begin = 1,
                    .end = 3,
                    .out = out.data(),
                    .out_stride = 4,
                    .add = true},
                   scratch);

  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool inside = i % 4 == 1 || i % 4 == 2;
    EXPECT_EQ(out[i], inside ? 1.5F + plain[i] : 1.5F);
  }
}

// Keys and values of `slots` tokens in pages, the last one partly filled.
struct Cached {
  Cached(std::size_t slots, std::size_t head_dim, Rng& rng) : dim(head_dim) {
    for (std::size_t page = 0; page * kPageSlots < slots; ++page) {
      keys.emplace_back(head_dim * kPageSlots);
      values.emplace_back(head_dim * kPageSlots);
      positions.emplace_back(kPageSlots, -1);
      for (std::size_t i = 0; i < head_dim * kPageSlots; ++i) {
        keys.back()[i] = float_to_half(static_cast<float>(rng.uniform(-1.0, 1.0)));
        values.back()[i] = float_to_half(static_cast<float>(rng.uniform(-1.0, 1.0)));
      }
      for (std::size_t s = 0; s < kPageSlots && page * kPageSlots + s < slots; ++s) {
        positions.back()[s] = static_cast<std::int32_t>(page * kPageSlots + s);
      }
    }
    for (std::size_t page = 0; page < keys.size(); ++page) {
      pages.push_back({keys[page].data(), values[page].data(), positions[page].data()});
    }
  }
  double key(std::size_t token, std::size_t d) const {
    return half_to_float(keys[token / kPageSlots][d * kPageSlots + token % kPageSlots]);
  }
  double value(std::size_t token, std::size_t d) const {
    return half_to_float(values[token / kPageSlots][token % kPageSlots * dim + d]);
  }

  std::size_t dim;
  std::vector<std::vector<std::uint16_t>> keys;
  std::vector<std::vector<std::uint16_t>> values;
  std::vector<std::vector<std::int32_t>> positions;
  std::vector<AttentionPage> pages;
};

std::vector<float> attended(const Kernels& kernels, const Cached& cached, std::int32_t position,
                            const std::vector<float>& query) {
  const std::size_t heads = query.size() / cached.dim;
  std::vector<float> scores(heads * cached.pages.size() * kPageSlots);
  std::vector<float> out(query.size());
  kernels.attend({.pages = cached.pages,
                  .position = position,
                  .heads = heads,
                  .head_dim = cached.dim,
                  .query = query.data(),
                  .scores = scores.data(),
                  .out = out.data()});
  return out;
}

TEST(Kernels, AttendToWhatIsNotLaterThanTheQuery) {
  Rng rng(10);
  for (const Kernels* kernels : runnable_kernels()) {
    for (const std::size_t dim : {16U, 48U, 64U}) {
      SCOPED_TRACE(std::string(kernels->name) + " " + std::to_string(dim));
      const Cached cached(37, dim, rng);
      std::vector<float> query(3 * dim);
      for (float& q : query) {
        q = static_cast<float>(rng.uniform(-3.0, 3.0));
      }
      constexpr std::size_t kSeen = 21;

      const std::vector<float> out = attended(*kernels, cached, kSeen - 1, query);

      for (std::size_t h = 0; h < 3; ++h) {
        double total = 0;
        std::vector<double> sum(dim);
        for (std::size_t t = 0; t < kSeen; ++t) {
          double score = 0;
          for (std::size_t d = 0; d < dim; ++d) {
            score += double{query[h * dim + d]} * cached.key(t, d);
          }
          const double weight = std::exp(score / std::sqrt(static_cast<double>(dim)));
          total += weight;
          for (std::size_t d = 0; d < dim; ++d) {
            sum[d] += weight * cached.value(t, d);
          }
        }
        for (std::size_t d = 0; d < dim; ++d) {
          ASSERT_NEAR(out[h * dim + d], sum[d] / total, 2e-6);
        }
      }
    }
  }
}

TEST(Kernels, AttendWithTheSameBitsForOneHeadOrSeveralOnEveryProcessor) {
  Rng rng(11);
  const Cached cached(50, 32, rng);
  std::vector<float> query(4 * 32);
  for (float& q : query) {
    q = static_cast<float>(rng.uniform(-3.0, 3.0));
  }
  const std::vector<float> expected = attended(*runnable_kernels().front(), cached, 49, query);

  for (const Kernels* kernels : runnable_kernels()) {
    SCOPED_TRACE(kernels->name);
    EXPECT_EQ(attended(*kernels, cached, 49, query), expected);
    for (std::size_t h = 0; h < 4; ++h) {
      const std::vector<float> one(query.begin() + static_cast<std::ptrdiff_t>(32 * h),
                                   query.begin() + static_cast<std::ptrdiff_t>(32 * h + 32));
      const std::vector<float> alone = attended(*kernels, cached, 49, one);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                             expected.begin() + static_cast<std::ptrdiff_t>(32 * h)));
    }
  }
}

TEST(Kernels, NormaliseAndGateAsDoublePrecisionDoesWithTheSameBitsEverywhere) {
  Rng rng(12);
  std::vector<float> x(77);
  std::vector<float> weight(77);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(rng.uniform(-30.0, 30.0));
    weight[i] = static_cast<float>(rng.uniform(-1.0, 1.0));
  }
  double squares = 0;
  for (const float v : x) {
    squares += double{v} * v;
  }
  const double scale = 1.0 / std::sqrt(squares / 77 + 1e-5);
  std::vector<float> first_norm;
  std::vector<float> first_gate;
  for (const Kernels* kernels : runnable_kernels()) {
    SCOPED_TRACE(kernels->name);
    std::vector<float> norm(77);
    kernels->normalise(
        {.x = x.data(), .weight = weight.data(), .size = 77, .epsilon = 1e-5F, .out = norm.data()});
    std::vector<float> gate = x;
    kernels->gated_silu(gate.data(), weight.data(), 77);

    for (std::size_t i = 0; i < 77; ++i) {
      EXPECT_NEAR(norm[i], x[i] * scale * weight[i], 1e-6);
      EXPECT_NEAR(gate[i], x[i] / (1 + std::exp(-double{x[i]})) * weight[i], 1e-5);
    }
    first_norm = first_norm.empty() ? norm : first_norm;
    first_gate = first_gate.empty() ? gate : first_gate;
    EXPECT_EQ(norm, first_norm);
    EXPECT_EQ(gate, first_gate);
  }
}

TEST(Kernels, ConvertEveryHalfThereAndBack) {
  std::vector<std::uint16_t> halves;
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    if ((bits & 0x7c00U) != 0x7c00U) {  // finite
      halves.push_back(static_cast<std::uint16_t>(bits));
    }
  }
  std::vector<float> floats;
  for (const std::uint16_t half : halves) {
    floats.push_back(half_to_float(half));
  }
  for (const Kernels* kernels : runnable_kernels()) {
    SCOPED_TRACE(kernels->name);
    std::vector<std::uint16_t> back(halves.size());

    kernels->to_halves(floats.data(), back.data(), back.size());

    EXPECT_EQ(back, halves);
  }
}

TEST(Kernels, RoundToHalvesAlikeAndNeverToInfinity) {
  Rng rng(13);
  std::vector<float> floats(16 * 1000);
  for (float& value : floats) {
    value = std::bit_cast<float>(static_cast<std::uint32_t>(rng.next()));
    value = std::isnan(value) ? INFINITY : value;
  }
  std::vector<std::uint16_t> expected;
  for (const float value : floats) {
    expected.push_back(float_to_half(value));
    ASSERT_TRUE(std::isfinite(half_to_float(expected.back())));
  }
  for (const Kernels* kernels : runnable_kernels()) {
    SCOPED_TRACE(kernels->name);
    std::vector<std::uint16_t> halves(floats.size());

    kernels->to_halves(floats.data(), halves.data(), halves.size());

    EXPECT_EQ(halves, expected);
  }
}

}  // namespace
}  // namespace spillway
