#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "engine/byte_cursor.h"
#include "engine/gguf.h"

namespace spillway {
namespace {

constexpr std::uint32_t kMagic = 0x46554747U;  // "GGUF"
constexpr std::uint64_t kMaxKeyBytes = 65535;
constexpr std::uint64_t kMaxNameBytes = 256;
constexpr std::uint64_t kMaxAlignment = 1U << 16U;
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kLeastKeyBytes = 8 + 4 + 1;  // name length, type, smallest value
constexpr std::uint64_t kLeastTensorBytes =
    8 + 4 + 8 + 4 + 8;  // name length, one dim, type, offset
constexpr int kMaxArrayDepth = 4;

Error damaged(std::string message) {
  return {ErrorCode::kInvalid, std::move(message)};
}

Error cut_short(std::string_view what, std::size_t at) {
  return damaged(
      fmt::format("the file ends inside {} (byte {}): it is truncated or no GGUF file", what, at));
}

// Names come from a hostile file and go into messages and logs: printable ASCII only, bounded.
std::string shown(std::string_view name) {
  constexpr std::size_t kLongest = 80;
  std::string out(name.substr(0, kLongest));
  std::replace_if(out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return name.size() > kLongest ? out + "..." : out;
}

// Bytes of one scalar; nothing for strings, arrays and unknown types.
std::optional<std::uint64_t> scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> multiplied(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    return std::nullopt;
  }
  return product;
}

}  // namespace

class GgufReader {
 public:
  explicit GgufReader(std::span<const std::byte> bytes) : bytes_(bytes), cursor_(bytes) {}

  Result<GgufFile> read() {
    const auto counts = read_header();
    if (!counts) {
      return counts.error();
    }
    for (std::uint64_t i = 0; i < counts->second; ++i) {
      if (const Status read = read_key(); !read) {
        return read.error();
      }
    }
    const auto alignment = read_alignment();
    if (!alignment) {
      return alignment.error();
    }
    for (std::uint64_t i = 0; i < counts->first; ++i) {
      if (const Status read = read_tensor(*alignment); !read) {
        return read.error();
      }
    }
    if (const Status placed = place_tensors(*alignment); !placed) {
      return placed.error();
    }
    return std::move(file_);
  }

 private:
  using Counts = std::pair<std::uint64_t, std::uint64_t>;  // tensors, keys

  Result<Counts> read_header() {
    const auto magic = cursor_.read<std::uint32_t>();
    if (!magic || *magic != kMagic) {
      return damaged("it does not begin with \"GGUF\": this is no GGUF file");
    }
    const auto version = cursor_.read<std::uint32_t>();
    if (!version) {
      return cut_short("the header", cursor_.position());
    }
    if (*version != 2 && *version != 3) {
      return damaged(fmt::format("GGUF version {} is not supported; 2 and 3 are", *version));
    }
    const auto tensors = cursor_.read<std::uint64_t>();
    const auto keys = cursor_.read<std::uint64_t>();
    if (!tensors || !keys) {
      return cut_short("the header", cursor_.position());
    }
    if (*tensors > cursor_.remaining() / kLeastTensorBytes) {
      return damaged(fmt::format("it claims {} tensors, more than its {} bytes can describe",
                                 *tensors, bytes_.size()));
    }
    if (*keys > cursor_.remaining() / kLeastKeyBytes) {
      return damaged(fmt::format("it claims {} metadata keys, more than its {} bytes can hold",
                                 *keys, bytes_.size()));
    }
    return Counts{*tensors, *keys};
  }

  Status read_key() {
    const auto key = cursor_.text();
    if (!key) {
      return cut_short("a metadata key", cursor_.position());
    }
    if (key->empty() || key->size() > kMaxKeyBytes) {
      return damaged(fmt::format("a metadata key of {} bytes (1 to {} are allowed)", key->size(),
                                 kMaxKeyBytes));
    }
    const auto type = cursor_.read<std::uint32_t>();
    if (!type) {
      return cut_short(fmt::format("key {}", shown(*key)), cursor_.position());
    }
    GgufValue value{.type = static_cast<GgufType>(*type)};
    const std::size_t start = cursor_.position();
    if (const Status read = skip_value(*key, value, 0); !read) {
      return read.error();
    }
    // The element type and count of an array stand before its elements.
    const std::size_t head = value.type == GgufType::kArray ? 12 : 0;
    value.bytes = bytes_.subspan(start + head, cursor_.position() - start - head);
    if (!file_.values_.emplace(*key, value).second) {
      return damaged(fmt::format("key {} stands twice", shown(*key)));
    }
    return Ok{};
  }

  // Moves the cursor over a value of value.type; fills element and count of an array.
  Status skip_value(std::string_view key, GgufValue& value, int depth) {
    if (value.type == GgufType::kString) {
      return cursor_.text() ? Status(Ok{}) : inside_key(key);
    }
    if (value.type == GgufType::kArray) {
      return skip_array(key, value, depth);
    }
    const auto size = scalar_bytes(value.type);
    if (!size) {
      return damaged(fmt::format("key {}: unknown value type {}", shown(key),
                                 static_cast<std::uint32_t>(value.type)));
    }
    return cursor_.take(*size) ? Status(Ok{}) : inside_key(key);
  }

  Status skip_array(std::string_view key, GgufValue& value, int depth) {
    if (depth == kMaxArrayDepth) {
      return damaged(fmt::format("key {}: arrays nested more than {} deep", shown(key), depth));
    }
    const auto element = cursor_.read<std::uint32_t>();
    const auto count = cursor_.read<std::uint64_t>();
    if (!element || !count) {
      return inside_key(key);
    }
    value.element = static_cast<GgufType>(*element);
    value.count = *count;
    if (const auto size = scalar_bytes(value.element)) {
      const auto total = multiplied(*size, *count);
      return total && cursor_.take(*total) ? Status(Ok{}) : too_many(key, *count);
    }
    // Strings and arrays take at least the 8 bytes of a length.
    if (*count > cursor_.remaining() / 8) {
      return too_many(key, *count);
    }
    for (std::uint64_t i = 0; i < *count; ++i) {
      GgufValue inner{.type = value.element};
      if (const Status read = skip_value(key, inner, depth + 1); !read) {
        return read.error();
      }
    }
    return Ok{};
  }

  Status inside_key(std::string_view key) const {
    return cut_short(fmt::format("the value of key {}", shown(key)), cursor_.position());
  }

  Status too_many(std::string_view key, std::uint64_t count) const {
    return damaged(fmt::format("key {}: it claims {} elements, more than the {} bytes that follow",
                               shown(key), count, cursor_.remaining()));
  }

  Result<std::uint64_t> read_alignment() const {
    if (file_.value("general.alignment") == nullptr) {
      return kDefaultAlignment;
    }
    auto alignment = file_.integer("general.alignment");
    if (alignment && (*alignment < 8 || *alignment > kMaxAlignment || *alignment % 8 != 0)) {
      return damaged(fmt::format("general.alignment is {}; it must be a multiple of 8 up to {}",
                                 *alignment, kMaxAlignment));
    }
    return alignment;
  }

  Status read_tensor(std::uint64_t alignment) {
    const auto name = cursor_.text();
    if (!name) {
      return cut_short("a tensor's name", cursor_.position());
    }
    if (name->empty() || name->size() > kMaxNameBytes) {
      return damaged(fmt::format("a tensor name of {} bytes (1 to {} are allowed)", name->size(),
                                 kMaxNameBytes));
    }
    GgufTensor tensor{.name = *name};
    if (const Status shape = read_shape(tensor); !shape) {
      return shape.error();
    }
    const auto type = cursor_.read<std::uint32_t>();
    const auto offset = cursor_.read<std::uint64_t>();
    if (!type || !offset) {
      return cut_short(fmt::format("tensor {}", shown(*name)), cursor_.position());
    }
    const auto layout = tensor_layout(*type);
    if (!layout) {
      return damaged(fmt::format("tensor {}: type {} is not supported; these are: {}", shown(*name),
                                 *type, readable_tensor_types()));
    }
    tensor.layout = *layout;
    if (*offset % alignment != 0) {
      return damaged(fmt::format("tensor {}: offset {} is no multiple of the alignment {}",
                                 shown(*name), *offset, alignment));
    }
    if (!file_.tensors_.emplace(*name, tensor).second) {
      return damaged(fmt::format("tensor {} stands twice", shown(*name)));
    }
    offsets_.emplace_back(*name, *offset);
    return Ok{};
  }

  Status read_shape(GgufTensor& tensor) {
    const auto dim_count = cursor_.read<std::uint32_t>();
    if (!dim_count) {
      return cut_short(fmt::format("tensor {}", shown(tensor.name)), cursor_.position());
    }
    if (*dim_count < 1 || *dim_count > tensor.dims.size()) {
      return damaged(fmt::format("tensor {}: {} dimensions (1 to 4 are allowed)",
                                 shown(tensor.name), *dim_count));
    }
    tensor.dim_count = *dim_count;
    for (std::uint32_t d = 0; d < *dim_count; ++d) {
      const auto dim = cursor_.read<std::uint64_t>();
      if (!dim) {
        return cut_short(fmt::format("tensor {}", shown(tensor.name)), cursor_.position());
      }
      if (*dim == 0) {
        return damaged(fmt::format("tensor {}: dimension {} is 0", shown(tensor.name), d));
      }
      tensor.dims[d] = *dim;
    }
    return Ok{};
  }

  // The data begins at the first multiple of the alignment after the last description.
  Status place_tensors(std::uint64_t alignment) {
    const std::uint64_t described = cursor_.position();
    const std::uint64_t begin = (described + alignment - 1) / alignment * alignment;
    for (const auto& [name, offset] : offsets_) {
      GgufTensor& tensor = file_.tensors_.find(name)->second;
      const auto size = tensor_bytes(tensor);
      if (!size) {
        return size.error();
      }
      std::uint64_t from = 0;
      std::uint64_t to = 0;
      if (__builtin_add_overflow(begin, offset, &from) ||
          __builtin_add_overflow(from, *size, &to) || to > bytes_.size()) {
        return damaged(
            fmt::format("tensor {}: {} bytes at offset {} reach beyond the file's {} bytes: it is "
                        "truncated or damaged",
                        shown(name), *size, offset, bytes_.size()));
      }
      tensor.bytes =
          bytes_.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(*size));
    }
    return Ok{};
  }

  static Result<std::uint64_t> tensor_bytes(const GgufTensor& tensor) {
    if (tensor.dims[0] % tensor.layout.block_values != 0) {
      return damaged(fmt::format("tensor {}: rows of {} values do not divide into {} blocks of {}",
                                 shown(tensor.name), tensor.dims[0], tensor.layout.name,
                                 tensor.layout.block_values));
    }
    std::optional<std::uint64_t> size = tensor.dims[0] / tensor.layout.block_values;
    size = multiplied(*size, tensor.layout.block_bytes);
    for (std::size_t d = 1; d < tensor.dims.size() && size; ++d) {
      size = multiplied(*size, tensor.dims[d]);
    }
    if (!size) {
      return damaged(fmt::format("tensor {}: dimensions {}x{}x{}x{} overflow", shown(tensor.name),
                                 tensor.dims[0], tensor.dims[1], tensor.dims[2], tensor.dims[3]));
    }
    return *size;
  }

  std::span<const std::byte> bytes_;
  ByteCursor cursor_;
  GgufFile file_;
  std::vector<std::pair<std::string_view, std::uint64_t>> offsets_;
};

Result<GgufFile> parse_gguf(std::span<const std::byte> bytes) {
  return GgufReader(bytes).read();
}

}  // namespace spillway
