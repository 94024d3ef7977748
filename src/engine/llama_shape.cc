#include "engine/llama_shape.h"

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace spillway {
namespace {

struct SizeKey {
  std::string_view key;
  std::size_t LlamaShape::* field;
  std::uint64_t most;
  bool required = true;
};

// Far above any model that a processor could run; they keep products of sizes inside 64 bits.
constexpr SizeKey kSizes[] = {
    {"llama.block_count", &LlamaShape::layers, 1024},
    {"llama.embedding_length", &LlamaShape::width, 1U << 17U},
    {"llama.feed_forward_length", &LlamaShape::hidden, 1U << 20U},
    {"llama.attention.head_count", &LlamaShape::heads, 1024},
    {"llama.attention.head_count_kv", &LlamaShape::kv_heads, 1024, false},
    {"llama.context_length", &LlamaShape::context, 1U << 24U},
    {"llama.attention.key_length", &LlamaShape::head_dim, 1024, false},
};

Error wrong(std::string message) {
  return {ErrorCode::kInvalid, std::move(message)};
}

Status read_sizes(const GgufFile& file, LlamaShape& shape) {
  for (const SizeKey& size : kSizes) {
    if (!size.required && file.value(size.key) == nullptr) {
      continue;
    }
    const auto value = file.integer(size.key);
    if (!value) {
      return value.error();
    }
    if (*value < 1 || *value > size.most) {
      return wrong(fmt::format("key {} is {}; 1 to {} are supported", size.key, *value, size.most));
    }
    shape.*size.field = static_cast<std::size_t>(*value);
  }
  return Ok{};
}

// Keys whose presence with another value means a computation that we do not do.
Status refuse_unsupported(const GgufFile& file, const LlamaShape& shape) {
  if (file.value("llama.rope.scaling.type") != nullptr) {
    const auto type = file.text("llama.rope.scaling.type");
    if (!type || *type != "none") {
      return wrong("key llama.rope.scaling.type: scaled rotary positions are not supported");
    }
  }
  if (file.value("llama.rope.scale_linear") != nullptr) {
    const auto scale = file.number("llama.rope.scale_linear");
    if (!scale || *scale != 1.0) {
      return wrong("key llama.rope.scale_linear: scaled rotary positions are not supported");
    }
  }
  if (file.value("llama.expert_count") != nullptr) {
    const auto experts = file.integer("llama.expert_count");
    if (!experts || *experts != 0) {
      return wrong("key llama.expert_count: models with experts are not supported");
    }
  }
  for (const std::string_view key :
       {"llama.rope.dimension_count", "llama.attention.value_length"}) {
    if (file.value(key) == nullptr) {
      continue;
    }
    const auto size = file.integer(key);
    if (!size || *size != shape.head_dim) {
      return wrong(fmt::format("key {} must be the head's length, {}", key, shape.head_dim));
    }
  }
  return Ok{};
}

Status check_heads(const GgufFile& file, LlamaShape& shape) {
  if (shape.kv_heads == 0) {
    shape.kv_heads = shape.heads;
  }
  if (shape.heads % shape.kv_heads != 0) {
    return wrong(fmt::format("{} heads cannot share {} key-value heads evenly", shape.heads,
                             shape.kv_heads));
  }
  if (file.value("llama.attention.key_length") == nullptr) {
    if (shape.width % shape.heads != 0) {
      return wrong(fmt::format("{} heads do not divide a width of {}", shape.heads, shape.width));
    }
    shape.head_dim = shape.width / shape.heads;
  }
  if (shape.head_dim % 16 != 0) {
    return wrong(
        fmt::format("heads of {} values are not supported; a multiple of 16 is", shape.head_dim));
  }
  return Ok{};
}

Status read_numbers(const GgufFile& file, LlamaShape& shape) {
  const auto epsilon = file.number("llama.attention.layer_norm_rms_epsilon");
  if (!epsilon) {
    return epsilon.error();
  }
  if (*epsilon <= 0.0 || *epsilon >= 1.0) {
    return wrong(fmt::format("key llama.attention.layer_norm_rms_epsilon is {}", *epsilon));
  }
  shape.epsilon = static_cast<float>(*epsilon);
  if (file.value("llama.rope.freq_base") == nullptr) {
    return Ok{};
  }
  const auto base = file.number("llama.rope.freq_base");
  if (!base) {
    return base.error();
  }
  if (*base < 1.0) {
    return wrong(fmt::format("key llama.rope.freq_base is {}; at least 1 is expected", *base));
  }
  shape.rope_base = *base;
  return Ok{};
}

}  // namespace

Result<LlamaShape> read_llama_shape(const GgufFile& file) {
  const auto architecture = file.text("general.architecture");
  if (!architecture) {
    return architecture.error();
  }
  if (*architecture != "llama") {
    return wrong("key general.architecture: only \"llama\" is supported");
  }
  LlamaShape shape;
  if (const Status sizes = read_sizes(file, shape); !sizes) {
    return sizes.error();
  }
  if (const Status heads = check_heads(file, shape); !heads) {
    return heads.error();
  }
  if (const Status numbers = read_numbers(file, shape); !numbers) {
    return numbers.error();
  }
  if (const Status supported = refuse_unsupported(file, shape); !supported) {
    return supported.error();
  }
  return shape;
}

}  // namespace spillway
