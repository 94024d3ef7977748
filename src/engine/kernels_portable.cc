// Kernels in plain C++: what tests hold the others against, and the fallback on other processors.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "base/check.h"
#include "engine/kernels_variants.h"
#include "engine/unpack.h"

namespace spillway {
namespace {

constexpr std::size_t kTileRows = 4;

struct Lanes {
  float v[16];

  static Lanes zero() { return broadcast(0.0F); }
  static Lanes broadcast(float value) {
    Lanes out;
    std::fill(std::begin(out.v), std::end(out.v), value);
    return out;
  }
  static Lanes load(const float* from) {
    Lanes out;
    std::copy(from, from + 16, out.v);
    return out;
  }
  static Lanes load_halves(const std::uint16_t* from) {
    Lanes out;
    std::transform(from, from + 16, out.v, half_to_float);
    return out;
  }
  // In the order that halving a register gives: the other kernels' order.
  float sum() const {
    float halves[8];
    for (std::size_t i = 0; i < 8; ++i) {
      halves[i] = v[i] + v[i + 8];
    }
    for (std::size_t i = 0; i < 4; ++i) {
      halves[i] += halves[i + 4];
    }
    return (halves[0] + halves[2]) + (halves[1] + halves[3]);
  }
  void store(float* to) const { std::copy(std::begin(v), std::end(v), to); }
  void store_halves(std::uint16_t* to) const {
    std::transform(std::begin(v), std::end(v), to, float_to_half);
  }
};

Lanes mul(const Lanes& a, const Lanes& b) {
  Lanes out;
  std::transform(std::begin(a.v), std::end(a.v), b.v, out.v, std::multiplies<float>());
  return out;
}

// Rounds once, as the instruction does.
Lanes fma(const Lanes& a, const Lanes& b, const Lanes& c) {
  Lanes out;
  for (std::size_t i = 0; i < 16; ++i) {
    out.v[i] = std::fma(a.v[i], b.v[i], c.v[i]);
  }
  return out;
}

struct Bytes64 {
  const std::uint8_t* from;

  static Bytes64 load(const std::uint8_t* from) { return {from}; }
};

// Lane i: the products 4i .. 4i + 3, summed in integers.
Lanes dot_fours(const Bytes64& weights, const ActivationBlock& x) {
  Lanes out;
  for (std::size_t i = 0; i < 16; ++i) {
    std::int32_t sum = 0;
    for (std::size_t j = 4 * i; j < 4 * i + 4; ++j) {
      sum += std::int32_t{weights.from[j]} * x.integer(j);
    }
    out.v[i] = static_cast<float>(sum);
  }
  return out;
}

// Lane i: scales[i / 4].
Lanes spread_fours(const float* scales) {
  Lanes out;
  for (std::size_t i = 0; i < 16; ++i) {
    out.v[i] = scales[i / 4];
  }
  return out;
}

#include "engine/kernels_common.inc"

}  // namespace

constexpr Kernels kPortableKernels = kernels_named("portable");

}  // namespace spillway
