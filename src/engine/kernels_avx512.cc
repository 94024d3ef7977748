// Kernels for processors with AVX-512 and its byte products (VNNI): sixteen lanes are a register.
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
#pragma clang attribute push(                                                               \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#endif

namespace spillway {
namespace {

constexpr std::size_t kTileRows = 8;

struct Lanes {
  __m512 v;

  static Lanes zero() { return {_mm512_setzero_ps()}; }
  static Lanes broadcast(float value) { return {_mm512_set1_ps(value)}; }
  static Lanes load(const float* from) { return {_mm512_loadu_ps(from)}; }
  static Lanes load_halves(const std::uint16_t* from) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
  }
  float sum() const {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  void store(float* to) const { _mm512_storeu_ps(to, v); }
  void store_halves(std::uint16_t* to) const {
    const __m512 most = _mm512_set1_ps(65504.0F);
    const __m512 least = _mm512_set1_ps(-65504.0F);
    const __m512 bounded = _mm512_max_ps(least, _mm512_min_ps(most, v));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_cvtps_ph(bounded, _MM_FROUND_TO_NEAREST_INT));
  }
};

SPILLWAY_INLINE Lanes mul(const Lanes& a, const Lanes& b) {
  return {_mm512_mul_ps(a.v, b.v)};
}

SPILLWAY_INLINE Lanes fma(const Lanes& a, const Lanes& b, const Lanes& c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}

struct Bytes64 {
  __m512i v;

  static Bytes64 load(const std::uint8_t* from) { return {_mm512_loadu_si512(from)}; }
};

SPILLWAY_INLINE Lanes dot_fours(const Bytes64& weights, const ActivationBlock& x) {
  const __m512i high =
      _mm512_dpbusd_epi32(_mm512_setzero_si512(), weights.v, _mm512_load_si512(x.high.data()));
  const __m512i sums =
      _mm512_dpbusd_epi32(_mm512_slli_epi32(high, 8), weights.v, _mm512_load_si512(x.low.data()));
  return {_mm512_cvtepi32_ps(sums)};
}

SPILLWAY_INLINE Lanes spread_fours(const float* scales) {
  const __m512i spread = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return {_mm512_permutexvar_ps(spread, _mm512_castps128_ps512(_mm_loadu_ps(scales)))};
}

#include "engine/kernels_common.inc"

}  // namespace

constexpr Kernels kAvx512Kernels = kernels_named("avx512-vnni");

}  // namespace spillway

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
