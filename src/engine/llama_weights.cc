#include "engine/llama_weights.h"

#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace spillway {
namespace {

constexpr std::uint64_t kMaxVocabulary = 1U << 24U;

// Takes tensors out of the file, counting them; the first problem stays.
class TensorPicker {
 public:
  explicit TensorPicker(const GgufFile& file) : file_(file) {}

  WeightMatrix matrix(std::string_view name, std::uint64_t rows, std::uint64_t columns) {
    const GgufTensor* tensor = find(name);
    if (tensor == nullptr) {
      return {};
    }
    if (tensor->dims != std::array<std::uint64_t, 4>{columns, rows, 1, 1}) {
      fail(fmt::format("tensor {} is {}x{}x{}x{}; {}x{} is expected", name, tensor->dims[0],
                       tensor->dims[1], tensor->dims[2], tensor->dims[3], columns, rows));
      return {};
    }
    return {.data = tensor->bytes.data(),
            .layout = tensor->layout,
            .rows = static_cast<std::size_t>(rows),
            .columns = static_cast<std::size_t>(columns)};
  }

  std::vector<float> vector(std::string_view name, std::uint64_t size) {
    const GgufTensor* tensor = find(name);
    if (tensor == nullptr) {
      return {};
    }
    if (tensor->dims != std::array<std::uint64_t, 4>{size, 1, 1, 1} ||
        tensor->layout.type != TensorType::kF32) {
      fail(fmt::format("tensor {} must be {} values of type F32", name, size));
      return {};
    }
    std::vector<float> values(static_cast<std::size_t>(size));
    std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
    return values;
  }

  bool ok() const { return problem_.empty(); }
  Error error() const { return {ErrorCode::kInvalid, problem_}; }
  std::size_t picked() const { return picked_; }

  void fail(std::string problem) {
    if (problem_.empty()) {
      problem_ = std::move(problem);
    }
  }

 private:
  const GgufTensor* find(std::string_view name) {
    const GgufTensor* tensor = file_.tensor(name);
    if (tensor == nullptr) {
      fail(fmt::format("tensor {} is missing", name));
      return nullptr;
    }
    ++picked_;
    return tensor;
  }

  const GgufFile& file_;
  std::size_t picked_ = 0;
  std::string problem_;
};

LlamaLayer pick_layer(TensorPicker& picker, std::size_t index, const LlamaShape& shape) {
  const auto name = [index](std::string_view part) {
    return fmt::format("blk.{}.{}.weight", index, part);
  };
  LlamaLayer layer;
  layer.attention_norm = picker.vector(name("attn_norm"), shape.width);
  layer.query = picker.matrix(name("attn_q"), shape.query_width(), shape.width);
  layer.key = picker.matrix(name("attn_k"), shape.kv_width(), shape.width);
  layer.value = picker.matrix(name("attn_v"), shape.kv_width(), shape.width);
  layer.output = picker.matrix(name("attn_output"), shape.width, shape.query_width());
  layer.ffn_norm = picker.vector(name("ffn_norm"), shape.width);
  layer.gate = picker.matrix(name("ffn_gate"), shape.hidden, shape.width);
  layer.up = picker.matrix(name("ffn_up"), shape.hidden, shape.width);
  layer.down = picker.matrix(name("ffn_down"), shape.width, shape.hidden);
  return layer;
}

std::vector<float> pick_rope_divisors(TensorPicker& picker, std::size_t size) {
  std::vector<float> divisors = picker.vector("rope_freqs.weight", size);
  for (const float divisor : divisors) {
    if (!std::isfinite(divisor) || divisor <= 0.0F) {
      picker.fail("tensor rope_freqs.weight holds a value that is not positive");
    }
  }
  return divisors;
}

}  // namespace

Result<LlamaWeights> read_llama_weights(const GgufFile& file, LlamaShape& shape) {
  const GgufTensor* embedding = file.tensor("token_embd.weight");
  if (embedding == nullptr) {
    return Error{ErrorCode::kInvalid, "tensor token_embd.weight is missing"};
  }
  if (embedding->dims[1] > kMaxVocabulary) {
    return Error{ErrorCode::kInvalid, fmt::format("tensor token_embd.weight has {} rows; {} are "
                                                  "supported",
                                                  embedding->dims[1], kMaxVocabulary)};
  }
  shape.vocabulary = static_cast<std::size_t>(embedding->dims[1]);
  TensorPicker picker(file);
  LlamaWeights weights;
  weights.embedding = picker.matrix("token_embd.weight", shape.vocabulary, shape.width);
  weights.output_norm = picker.vector("output_norm.weight", shape.width);
  weights.output = weights.embedding;
  if (file.tensor("output.weight") != nullptr) {
    weights.output = picker.matrix("output.weight", shape.vocabulary, shape.width);
  }
  if (file.tensor("rope_freqs.weight") != nullptr) {
    weights.rope_divisors = pick_rope_divisors(picker, shape.head_dim / 2);
  }
  for (std::size_t l = 0; l < shape.layers && picker.ok(); ++l) {
    weights.layers.push_back(pick_layer(picker, l, shape));
  }
  if (picker.ok() && picker.picked() != file.tensor_count()) {
    // Biases, experts and the like: leaving them out would give wrong answers in silence.
    picker.fail(fmt::format("{} of its {} tensors do not belong to a plain llama model",
                            file.tensor_count() - picker.picked(), file.tensor_count()));
  }
  if (!picker.ok()) {
    return picker.error();
  }
  return weights;
}

}  // namespace spillway
