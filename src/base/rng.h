#pragma once
// Seeded random numbers, the same on every machine: xoshiro256** (Blackman and Vigna, 2018) seeded
// by SplitMix64. Randomness is an argument of pure code (`Rng&`); not thread-safe, one owner each.
// No std:: distributions: their results differ between standard libraries.

#include <array>
#include <cstdint>

namespace spillway {

class Rng {
 public:
  explicit Rng(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15U;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
      z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
      word = z ^ (z >> 31U);
    }
  }

  std::uint64_t next() {
    const std::uint64_t result = rotate(state_[1] * 5U, 7U) * 9U;
    const std::uint64_t t = state_[1] << 17U;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotate(state_[3], 45U);
    return result;
  }

  // Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }

  // Uniform in [low, high).
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  // Uniform in [0, n); the bias is below 2^-32 for n < 2^32. REQUIRES: n > 0.
  std::uint64_t below(std::uint64_t n) {
    // The high word of a 64x64 product maps the range without a division.
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64U);
  }

 private:
  static std::uint64_t rotate(std::uint64_t x, unsigned k) { return (x << k) | (x >> (64U - k)); }

  std::array<std::uint64_t, 4> state_{};
};

}  // namespace spillway
