#pragma once
// Takes quantised rows apart (block layouts: ggml-common.h) into one form for all types: unsigned
// bytes, and for each sixteen of them a scale and an offset: weight = scale * byte + offset. Plain
// C++ that the compiler vectorises for whichever kernel it is inlined into. Included by kernels.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/half.h"

// Into kernels compiled for more than the baseline processor.
#define SPILLWAY_INLINE inline __attribute__((always_inline))

namespace spillway {

// Where one row goes. Types with 32-value blocks leave their 16-bit scales for the kernel to
// convert; the K types write floats.
struct UnpackTarget {
  std::uint8_t* values = nullptr;
  float* scales = nullptr;
  float* offsets = nullptr;
  std::uint16_t* half_scales = nullptr;   // one for each sixteen values
  std::uint16_t* half_offsets = nullptr;  // types that have them
};

SPILLWAY_INLINE std::uint16_t load_half(const std::uint8_t* from) {
  std::uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return bits;
}

SPILLWAY_INLINE void put_pair(std::uint16_t* groups, std::size_t block, std::uint16_t bits) {
  const std::uint32_t pair = bits * 0x10001U;
  std::memcpy(groups + 2 * block, &pair, sizeof(pair));
}

SPILLWAY_INLINE void spread_nibbles(const std::uint8_t* from, std::uint8_t* values) {
  for (std::size_t j = 0; j < 16; ++j) {
    values[j] = from[j] & 15U;
    values[j + 16] = from[j] >> 4U;
  }
}

// The fifth bits of 32 values, one each.
SPILLWAY_INLINE void add_fifth_bits(const std::uint8_t* from, std::uint8_t* values) {
  std::uint32_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  for (std::uint32_t j = 0; j < 32; ++j) {
    values[j] = static_cast<std::uint8_t>(values[j] | (((bits >> j) & 1U) << 4U));
  }
}

SPILLWAY_INLINE void unpack_q4_0(const std::uint8_t* row, std::size_t blocks,
                                 const UnpackTarget& to) {
  for (std::size_t b = 0; b < blocks; ++b, row += 18) {
    put_pair(to.half_scales, b, load_half(row));
    spread_nibbles(row + 2, to.values + 32 * b);
  }
}

SPILLWAY_INLINE void unpack_q4_1(const std::uint8_t* row, std::size_t blocks,
                                 const UnpackTarget& to) {
  for (std::size_t b = 0; b < blocks; ++b, row += 20) {
    put_pair(to.half_scales, b, load_half(row));
    put_pair(to.half_offsets, b, load_half(row + 2));
    spread_nibbles(row + 4, to.values + 32 * b);
  }
}

SPILLWAY_INLINE void unpack_q5_0(const std::uint8_t* row, std::size_t blocks,
                                 const UnpackTarget& to) {
  for (std::size_t b = 0; b < blocks; ++b, row += 22) {
    put_pair(to.half_scales, b, load_half(row));
    spread_nibbles(row + 6, to.values + 32 * b);
    add_fifth_bits(row + 2, to.values + 32 * b);
  }
}

SPILLWAY_INLINE void unpack_q5_1(const std::uint8_t* row, std::size_t blocks,
                                 const UnpackTarget& to) {
  for (std::size_t b = 0; b < blocks; ++b, row += 24) {
    put_pair(to.half_scales, b, load_half(row));
    put_pair(to.half_offsets, b, load_half(row + 2));
    spread_nibbles(row + 8, to.values + 32 * b);
    add_fifth_bits(row + 4, to.values + 32 * b);
  }
}

SPILLWAY_INLINE void unpack_q8_0(const std::uint8_t* row, std::size_t blocks,
                                 const UnpackTarget& to) {
  for (std::size_t b = 0; b < blocks; ++b, row += 34) {
    put_pair(to.half_scales, b, load_half(row));
    for (std::size_t j = 0; j < 32; ++j) {
      to.values[32 * b + j] = row[2 + j] ^ 0x80U;  // -128..127 becomes 0..255
    }
  }
}

// The eight 6-bit scales and minima of a K block, packed into twelve bytes.
struct KScales {
  std::array<std::uint8_t, 8> scale;
  std::array<std::uint8_t, 8> minimum;
};

SPILLWAY_INLINE KScales k_scales(const std::uint8_t* from) {
  KScales out{};
  for (std::size_t j = 0; j < 4; ++j) {
    out.scale[j] = from[j] & 63U;
    out.minimum[j] = from[j + 4] & 63U;
    out.scale[j + 4] =
        static_cast<std::uint8_t>((from[j + 8] & 15U) | ((unsigned{from[j]} >> 6U) << 4U));
    out.minimum[j + 4] =
        static_cast<std::uint8_t>((from[j + 8] >> 4U) | ((unsigned{from[j + 4]} >> 6U) << 4U));
  }
  return out;
}

SPILLWAY_INLINE void put_k_scales(const std::uint8_t* block, std::size_t b,
                                  const UnpackTarget& to) {
  const float d = half_to_float(load_half(block));
  const float d_minimum = half_to_float(load_half(block + 2));
  const KScales packed = k_scales(block + 4);
  for (std::size_t j = 0; j < 8; ++j) {
    const std::size_t group = 16 * b + 2 * j;
    to.scales[group] = to.scales[group + 1] = d * static_cast<float>(packed.scale[j]);
    to.offsets[group] = to.offsets[group + 1] =
        -(d_minimum * static_cast<float>(packed.minimum[j]));
  }
}

// 64 values from each 32 bytes: low halves first, then high halves.
SPILLWAY_INLINE void unpack_q4_k(const std::uint8_t* row, std::size_t blocks,
                                 const UnpackTarget& to) {
  for (std::size_t b = 0; b < blocks; ++b, row += 144) {
    put_k_scales(row, b, to);
    std::uint8_t* values = to.values + 256 * b;
    for (std::size_t j = 0; j < 128; ++j) {
      const std::size_t at = j / 32 * 64 + j % 32;
      values[at] = row[16 + j] & 15U;
      values[at + 32] = row[16 + j] >> 4U;
    }
  }
}

SPILLWAY_INLINE void unpack_q5_k(const std::uint8_t* row, std::size_t blocks,
                                 const UnpackTarget& to) {
  for (std::size_t b = 0; b < blocks; ++b, row += 176) {
    put_k_scales(row, b, to);
    std::uint8_t* values = to.values + 256 * b;
    for (std::size_t j = 0; j < 128; ++j) {
      const std::size_t at = j / 32 * 64 + j % 32;
      const auto fifth = static_cast<unsigned>(row[16 + j % 32]) >> (j / 32 * 2);
      values[at] = static_cast<std::uint8_t>((row[48 + j] & 15U) | ((fifth & 1U) << 4U));
      values[at + 32] = static_cast<std::uint8_t>((row[48 + j] >> 4U) | ((fifth & 2U) << 3U));
    }
  }
}

SPILLWAY_INLINE void unpack_q6_k(const std::uint8_t* row, std::size_t blocks,
                                 const UnpackTarget& to) {
  for (std::size_t b = 0; b < blocks; ++b, row += 210) {
    const float d = half_to_float(load_half(row + 208));
    for (std::size_t g = 0; g < 16; ++g) {
      const auto scale = static_cast<std::int8_t>(row[192 + g]);
      to.scales[16 * b + g] = d * static_cast<float>(scale);
      to.offsets[16 * b + g] = -32.0F * to.scales[16 * b + g];
    }
    for (std::size_t half = 0; half < 2; ++half) {
      const std::uint8_t* low = row + 64 * half;
      const std::uint8_t* high = row + 128 + 32 * half;
      std::uint8_t* values = to.values + 256 * b + 128 * half;
      for (std::size_t j = 0; j < 32; ++j) {
        const unsigned top = high[j];
        values[j] = static_cast<std::uint8_t>((low[j] & 15U) | ((top & 3U) << 4U));
        values[j + 32] = static_cast<std::uint8_t>((low[j + 32] & 15U) | ((top & 12U) << 2U));
        values[j + 64] = static_cast<std::uint8_t>((low[j] >> 4U) | (top & 48U));
        values[j + 96] = static_cast<std::uint8_t>((low[j + 32] >> 4U) | ((top & 192U) >> 2U));
      }
    }
  }
}

}  // namespace spillway
