#pragma once
// Conversions of 16-bit floating point, bit for bit what the F16C instructions give, so that every
// machine computes the same numbers. Pure; anybody.

#include <bit>
#include <cstdint>

namespace spillway {

// IEEE binary16.
inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U;
  const std::uint32_t rest = static_cast<std::uint32_t>(half & 0x7fffU) << 13U;
  // The exponent moves from bias 15 to 127 by a multiplication, which also handles subnormals.
  float value = std::bit_cast<float>(rest) * 0x1.0p112F;
  if (rest >= 0x0f800000U) {  // infinity and NaN keep the largest exponent
    value = std::bit_cast<float>(rest | 0x7f800000U);
  }
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

// Rounds to nearest even. Saturates: beyond the largest finite half it gives that one, so that a
// stored value is never infinite. A NaN stays a NaN.
inline std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint32_t>((bits >> 16U) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return static_cast<std::uint16_t>(sign | 0x7e00U);
  }
  if (magnitude >= 0x477fe000U) {  // 65504
    return static_cast<std::uint16_t>(sign | 0x7bffU);
  }
  if (magnitude < 0x38800000U) {  // below 2^-14: an addition rounds to the subnormals' grid
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  const std::uint32_t odd = (magnitude >> 13U) & 1U;
  const std::uint32_t rounded = magnitude + 0xfffU + odd - (112U << 23U);
  return static_cast<std::uint16_t>(sign | (rounded >> 13U));
}

// The upper half of a binary32.
inline float bfloat_to_float(std::uint16_t bfloat) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bfloat) << 16U);
}

}  // namespace spillway
