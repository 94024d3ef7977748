#include "engine/toy_gguf.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/half.h"
#include "prompt/byte_alphabet.h"

namespace spillway {
namespace {

ByteWriter typed(GgufType type) {
  ByteWriter out;
  out.put(static_cast<std::uint32_t>(type));
  return out;
}

// Where a block of the type keeps 16-bit floats: a scale, and for some an offset or minimum.
std::vector<std::size_t> half_places(TensorType type) {
  switch (type) {
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
    case TensorType::kQ4K:
    case TensorType::kQ5K:
      return {0, 2};
    case TensorType::kQ6K:
      return {208};
    default:
      return {0};
  }
}

// What a stored quant times its inner scale is at most, about.
float quant_range(TensorType type) {
  switch (type) {
    case TensorType::kQ8_0:
      return 128.0F;
    case TensorType::kQ4K:
    case TensorType::kQ5K:
      return 32.0F * 63.0F;
    case TensorType::kQ6K:
      return 32.0F * 128.0F;
    default:
      return 16.0F;
  }
}

void put_half(Bytes& bytes, std::size_t at, float value) {
  const std::uint16_t half = float_to_half(value);
  bytes[at] = static_cast<std::byte>(half & 0xffU);
  bytes[at + 1] = static_cast<std::byte>(half >> 8U);
}

Bytes random_floats(TensorType type, std::size_t values, float size, Rng& rng) {
  ByteWriter out;
  for (std::size_t i = 0; i < values; ++i) {
    const auto value = static_cast<float>(rng.uniform(-1.0, 1.0)) * size;
    if (type == TensorType::kF32) {
      out.put(value);
    } else if (type == TensorType::kF16) {
      out.put(float_to_half(value));
    } else {
      out.put(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U));
    }
  }
  return out.bytes();
}

void add_vocabulary(GgufWriter& file) {
  std::vector<std::string> tokens(byte_spellings().begin(), byte_spellings().end());
  std::vector<std::int32_t> types(tokens.size(), 1);
  for (const char* control : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    tokens.emplace_back(control);
    types.push_back(3);
  }
  file.add_text("tokenizer.ggml.model", "gpt2");
  file.add_text("tokenizer.ggml.pre", "smollm");
  file.add_texts("tokenizer.ggml.tokens", tokens);
  file.add_i32s("tokenizer.ggml.token_type", types);
  file.add_texts("tokenizer.ggml.merges", {});
  file.add_u32("tokenizer.ggml.eos_token_id", 256);
  file.add_flag("tokenizer.ggml.add_bos_token", false);
  file.add_text("tokenizer.chat_template",
                "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
                "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}");
}

}  // namespace

ByteWriter& ByteWriter::put_bytes(const Bytes& bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return *this;
}

ByteWriter& ByteWriter::put_text(std::string_view text) {
  put(static_cast<std::uint64_t>(text.size()));
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  bytes_.insert(bytes_.end(), bytes, bytes + text.size());
  return *this;
}

ByteWriter& ByteWriter::pad_to(std::size_t alignment) {
  bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
  return *this;
}

void GgufWriter::add_text(std::string_view key, std::string_view value) {
  keys_.push_back({std::string(key), typed(GgufType::kString).put_text(value).bytes()});
}

void GgufWriter::add_u32(std::string_view key, std::uint32_t value) {
  keys_.push_back({std::string(key), typed(GgufType::kU32).put(value).bytes()});
}

void GgufWriter::add_f32(std::string_view key, float value) {
  keys_.push_back({std::string(key), typed(GgufType::kF32).put(value).bytes()});
}

void GgufWriter::add_flag(std::string_view key, bool value) {
  keys_.push_back({std::string(key), typed(GgufType::kBool).put(value).bytes()});
}

void GgufWriter::add_texts(std::string_view key, const std::vector<std::string>& values) {
  ByteWriter out = typed(GgufType::kArray);
  out.put(static_cast<std::uint32_t>(GgufType::kString));
  out.put(static_cast<std::uint64_t>(values.size()));
  for (const std::string& value : values) {
    out.put_text(value);
  }
  keys_.push_back({std::string(key), out.bytes()});
}

void GgufWriter::add_i32s(std::string_view key, const std::vector<std::int32_t>& values) {
  ByteWriter out = typed(GgufType::kArray);
  out.put(static_cast<std::uint32_t>(GgufType::kI32));
  out.put(static_cast<std::uint64_t>(values.size()));
  for (const std::int32_t value : values) {
    out.put(value);
  }
  keys_.push_back({std::string(key), out.bytes()});
}

void GgufWriter::add_tensor(std::string_view name, TensorType type, std::vector<std::uint64_t> dims,
                            Bytes bytes) {
  tensors_.push_back({std::string(name), type, std::move(dims), std::move(bytes)});
}

void GgufWriter::remove(std::string_view name) {
  std::erase_if(keys_, [name](const Key& key) { return key.name == name; });
  std::erase_if(tensors_, [name](const Tensor& tensor) { return tensor.name == name; });
}

Bytes GgufWriter::file() const {
  ByteWriter out;
  out.put(std::uint32_t{0x46554747U}).put(std::uint32_t{3});
  out.put(std::uint64_t{tensors_.size()}).put(std::uint64_t{keys_.size()});
  for (const Key& key : keys_) {
    out.put_text(key.name).put_bytes(key.value);
  }
  ByteWriter data;
  for (const Tensor& tensor : tensors_) {
    data.pad_to(32);
    out.put_text(tensor.name).put(static_cast<std::uint32_t>(tensor.dims.size()));
    for (const std::uint64_t dim : tensor.dims) {
      out.put(dim);
    }
    out.put(static_cast<std::uint32_t>(tensor.type));
    out.put(std::uint64_t{data.bytes().size()});
    data.put_bytes(tensor.bytes);
  }
  out.pad_to(32).put_bytes(data.bytes());
  return out.bytes();
}

Bytes random_rows(TensorType type, std::size_t values, float size, Rng& rng) {
  const TensorLayout layout = tensor_layout(type);
  if (!layout.quantised) {
    return random_floats(type, values, size, rng);
  }
  const std::size_t blocks = values / layout.block_values;
  Bytes bytes(blocks * layout.block_bytes);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(rng.below(256)); });
  const std::vector<std::size_t> halves = half_places(type);
  const float scale = size / quant_range(type);
  for (std::size_t b = 0; b < blocks; ++b) {
    const auto jitter = static_cast<float>(rng.uniform(0.5, 1.0));
    put_half(bytes, b * layout.block_bytes + halves[0], scale * jitter);
    if (halves.size() == 2) {
      // Types with 32-value blocks add the second, the K types subtract it times a scale.
      const bool k_type = layout.block_values == 256;
      put_half(bytes, b * layout.block_bytes + halves[1],
               k_type ? scale * 16.0F : -8.0F * scale * jitter);
    }
  }
  return bytes;
}

GgufWriter toy_model(const ToyModel& toy) {
  GgufWriter file;
  Rng rng(toy.seed);
  file.add_text("general.architecture", "llama");
  file.add_text("general.name", "toy");
  file.add_u32("llama.block_count", toy.layers);
  file.add_u32("llama.context_length", toy.context);
  file.add_u32("llama.embedding_length", toy.width);
  file.add_u32("llama.feed_forward_length", toy.hidden);
  file.add_u32("llama.attention.head_count", toy.heads);
  file.add_u32("llama.attention.head_count_kv", toy.kv_heads);
  file.add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  file.add_f32("llama.rope.freq_base", 10000.0F);
  add_vocabulary(file);
  const auto matrix = [&](const std::string& name, std::uint64_t columns, std::uint64_t rows) {
    const auto values = static_cast<std::size_t>(columns * rows);
    file.add_tensor(name, toy.type, {columns, rows}, random_rows(toy.type, values, 0.4F, rng));
  };
  const auto norm = [&](const std::string& name) {
    file.add_tensor(name, TensorType::kF32, {toy.width},
                    random_rows(TensorType::kF32, toy.width, 2.0F, rng));
  };
  matrix("token_embd.weight", toy.width, kToyVocabulary);
  norm("output_norm.weight");
  if (!toy.tied) {
    matrix("output.weight", toy.width, kToyVocabulary);
  }
  const std::uint32_t kv_width = toy.width / toy.heads * toy.kv_heads;
  for (std::uint32_t l = 0; l < toy.layers; ++l) {
    const std::string part = "blk." + std::to_string(l) + ".";
    norm(part + "attn_norm.weight");
    matrix(part + "attn_q.weight", toy.width, toy.width);
    matrix(part + "attn_k.weight", toy.width, kv_width);
    matrix(part + "attn_v.weight", toy.width, kv_width);
    matrix(part + "attn_output.weight", toy.width, toy.width);
    norm(part + "ffn_norm.weight");
    matrix(part + "ffn_gate.weight", toy.width, toy.hidden);
    matrix(part + "ffn_up.weight", toy.width, toy.hidden);
    matrix(part + "ffn_down.weight", toy.hidden, toy.width);
  }
  return file;
}

}  // namespace spillway
