// Kernels for processors with AVX2, FMA and F16C: sixteen lanes are two registers.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "base/check.h"
#include "engine/kernels_variants.h"
#include "engine/unpack.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

namespace spillway {
namespace {

constexpr std::size_t kTileRows = 4;

struct Lanes {
  __m256 low;
  __m256 high;

  static Lanes zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Lanes broadcast(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  static Lanes load(const float* from) {
    return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
  }
  static Lanes load_halves(const std::uint16_t* from) {
    const auto* at = reinterpret_cast<const __m128i*>(from);
    return {_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at + 1))};
  }
  float sum() const {
    const __m256 eight = _mm256_add_ps(low, high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  void store(float* to) const {
    _mm256_storeu_ps(to, low);
    _mm256_storeu_ps(to + 8, high);
  }
  void store_halves(std::uint16_t* to) const {
    auto* at = reinterpret_cast<__m128i*>(to);
    _mm_storeu_si128(at, saturated(low));
    _mm_storeu_si128(at + 1, saturated(high));
  }

 private:
  static __m128i saturated(__m256 v) {
    const __m256 most = _mm256_set1_ps(65504.0F);
    const __m256 least = _mm256_set1_ps(-65504.0F);
    return _mm256_cvtps_ph(_mm256_max_ps(least, _mm256_min_ps(most, v)), _MM_FROUND_TO_NEAREST_INT);
  }
};

SPILLWAY_INLINE Lanes mul(const Lanes& a, const Lanes& b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}

SPILLWAY_INLINE Lanes fma(const Lanes& a, const Lanes& b, const Lanes& c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}

// Widened to sixteen bits, so that no product sum saturates.
struct Bytes64 {
  __m256i wide[4];

  static Bytes64 load(const std::uint8_t* from) {
    const auto* at = reinterpret_cast<const __m128i*>(from);
    return {{_mm256_cvtepu8_epi16(_mm_loadu_si128(at)),
             _mm256_cvtepu8_epi16(_mm_loadu_si128(at + 1)),
             _mm256_cvtepu8_epi16(_mm_loadu_si128(at + 2)),
             _mm256_cvtepu8_epi16(_mm_loadu_si128(at + 3))}};
  }
};

// Sixteen integers of a block, from column `first`.
SPILLWAY_INLINE __m256i integers(const ActivationBlock& x, std::size_t first) {
  const auto* high = reinterpret_cast<const __m128i*>(x.high.data() + first);
  const auto* low = reinterpret_cast<const __m128i*>(x.low.data() + first);
  return _mm256_add_epi16(_mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_load_si128(high)), 8),
                          _mm256_cvtepi8_epi16(_mm_load_si128(low)));
}

// Sums of four products of 32 columns from column `first`, in order.
SPILLWAY_INLINE __m256 dot_half(const __m256i* weights, const ActivationBlock& x,
                                std::size_t first) {
  const __m256i a = _mm256_madd_epi16(weights[0], integers(x, first));
  const __m256i b = _mm256_madd_epi16(weights[1], integers(x, first + 16));
  // hadd leaves the 64-bit parts as a0 b0 a1 b1; the permutation restores their order.
  return _mm256_cvtepi32_ps(_mm256_permute4x64_epi64(_mm256_hadd_epi32(a, b), 0xd8));
}

SPILLWAY_INLINE Lanes dot_fours(const Bytes64& weights, const ActivationBlock& x) {
  return {dot_half(weights.wide, x, 0), dot_half(weights.wide + 2, x, 32)};
}

SPILLWAY_INLINE Lanes spread_fours(const float* scales) {
  const __m256 four = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(scales));
  return {_mm256_permutevar8x32_ps(four, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1)),
          _mm256_permutevar8x32_ps(four, _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3))};
}

#include "engine/kernels_common.inc"

}  // namespace

constexpr Kernels kAvx2Kernels = kernels_named("avx2");

}  // namespace spillway

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
