#include "engine/gguf.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "engine/byte_cursor.h"

namespace spillway {
namespace {

constexpr std::uint64_t kMostExact = std::uint64_t{1} << 53U;

Error missing(std::string_view key) {
  return {ErrorCode::kInvalid, fmt::format("key {} is missing", key)};
}

Error unfit(std::string_view key, std::string_view wanted) {
  return {ErrorCode::kInvalid, fmt::format("key {} is not {}", key, wanted)};
}

// The file was checked: a scalar's bytes are there.
template <class T>
T decoded(std::span<const std::byte> bytes) {
  return *ByteCursor(bytes).read<T>();
}

std::optional<std::int64_t> signed_integer(GgufType type, std::span<const std::byte> bytes) {
  switch (type) {
    case GgufType::kU8:
      return decoded<std::uint8_t>(bytes);
    case GgufType::kI8:
      return decoded<std::int8_t>(bytes);
    case GgufType::kU16:
      return decoded<std::uint16_t>(bytes);
    case GgufType::kI16:
      return decoded<std::int16_t>(bytes);
    case GgufType::kU32:
      return decoded<std::uint32_t>(bytes);
    case GgufType::kI32:
      return decoded<std::int32_t>(bytes);
    case GgufType::kI64:
      return decoded<std::int64_t>(bytes);
    case GgufType::kU64: {
      const auto value = decoded<std::uint64_t>(bytes);
      if (value <= kMostExact) {
        return static_cast<std::int64_t>(value);
      }
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

const GgufTensor* GgufFile::tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const GgufValue* GgufFile::value(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

Result<std::string_view> GgufFile::text(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) {
    return missing(key);
  }
  if (found->type != GgufType::kString) {
    return unfit(key, "a string");
  }
  return *ByteCursor(found->bytes).text();
}

Result<std::uint64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) {
    return missing(key);
  }
  const auto number = signed_integer(found->type, found->bytes);
  if (!number || *number < 0 || static_cast<std::uint64_t>(*number) > kMostExact) {
    return unfit(key, "an integer from 0 to 2^53");
  }
  return static_cast<std::uint64_t>(*number);
}

Result<double> GgufFile::number(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) {
    return missing(key);
  }
  double number = std::numeric_limits<double>::quiet_NaN();
  if (found->type == GgufType::kF32) {
    number = static_cast<double>(decoded<float>(found->bytes));
  } else if (found->type == GgufType::kF64) {
    number = decoded<double>(found->bytes);
  }
  if (!std::isfinite(number)) {
    return unfit(key, "a finite floating-point number");
  }
  return number;
}

Result<bool> GgufFile::flag(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) {
    return missing(key);
  }
  if (found->type != GgufType::kBool || decoded<std::uint8_t>(found->bytes) > 1) {
    return unfit(key, "a boolean");
  }
  return decoded<std::uint8_t>(found->bytes) == 1;
}

Result<std::vector<std::string>> GgufFile::texts(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) {
    return missing(key);
  }
  if (found->type != GgufType::kArray || found->element != GgufType::kString) {
    return unfit(key, "an array of strings");
  }
  std::vector<std::string> out;
  out.reserve(static_cast<std::size_t>(found->count));
  ByteCursor cursor(found->bytes);
  for (std::uint64_t i = 0; i < found->count; ++i) {
    out.emplace_back(*cursor.text());
  }
  return out;
}

Result<std::vector<std::int32_t>> GgufFile::integers(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) {
    return missing(key);
  }
  if (found->type != GgufType::kArray || found->element != GgufType::kI32) {
    return unfit(key, "an array of 32-bit integers");
  }
  std::vector<std::int32_t> out;
  out.reserve(static_cast<std::size_t>(found->count));
  ByteCursor cursor(found->bytes);
  for (std::uint64_t i = 0; i < found->count; ++i) {
    out.push_back(*cursor.read<std::int32_t>());
  }
  return out;
}

}  // namespace spillway
