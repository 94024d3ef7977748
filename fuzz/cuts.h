#pragma once
// Input of a fuzzer cut into pieces: its first byte says how. So every fuzzer of a stream also
// looks for what depends on where the reads end.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace spillway {

// Takes the first byte off the input.
inline std::uint8_t take_byte(std::string_view& input) {
  if (input.empty()) {
    return 0;
  }
  const auto byte = static_cast<std::uint8_t>(input.front());
  input.remove_prefix(1);
  return byte;
}

// Pieces of 1 to 16 bytes, their sizes drawn from `seed`; seed 0: the whole.
inline std::vector<std::string_view> cut(std::string_view input, std::uint8_t seed) {
  std::vector<std::string_view> pieces;
  std::uint32_t state = seed;
  while (!input.empty()) {
    state = state * 1664525U + 1013904223U;
    const std::size_t size =
        seed == 0 ? input.size() : std::min<std::size_t>(1 + (state >> 28U), input.size());
    pieces.push_back(input.substr(0, size));
    input.remove_prefix(size);
  }
  return pieces;
}

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace spillway
