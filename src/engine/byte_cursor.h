#pragma once
// Walks over untrusted little-endian bytes: a read beyond the end gives nothing and moves nothing.
// Pure; the cursor does not own the bytes.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace spillway {

class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }

  template <class T>
  std::optional<T> read() {
    static_assert(std::is_trivially_copyable_v<T>);
    if (remaining() < sizeof(T)) {
      return std::nullopt;
    }
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  std::optional<std::span<const std::byte>> take(std::uint64_t count) {
    if (count > remaining()) {
      return std::nullopt;
    }
    const auto part = bytes_.subspan(position_, static_cast<std::size_t>(count));
    position_ += part.size();
    return part;
  }

  // A GGUF string: u64 length, then the bytes.
  std::optional<std::string_view> text() {
    const std::size_t start = position_;
    const auto length = read<std::uint64_t>();
    const auto part = length ? take(*length) : std::nullopt;
    if (!part) {
      position_ = start;
      return std::nullopt;
    }
    return std::string_view(reinterpret_cast<const char*>(part->data()), part->size());
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

}  // namespace spillway
