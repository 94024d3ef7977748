#include "engine/loaded_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/toy_gguf.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string problem(const GgufWriter& writer) {
  const Bytes bytes = writer.file();
  const auto model = LoadedModel::from_bytes(bytes, {.path = "toy.gguf"});
  return model ? "" : model.error().message;
}

TEST(LoadedModel, ReadsAWholeModel) {
  const Bytes bytes = toy_model().file();

  const auto model = LoadedModel::from_bytes(bytes, {.path = "dir/toy.gguf"});

  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->name(), "toy");
  EXPECT_EQ((*model)->shape().head_dim, 16U);
  EXPECT_EQ((*model)->tokenizer().size(), kToyVocabulary);
  EXPECT_EQ((*model)->weights().layers.size(), 2U);
}

TEST(LoadedModel, TakesItsNameFromThePathWhereTheFileHasNone) {
  GgufWriter writer = toy_model();
  writer.remove("general.name");
  const Bytes bytes = writer.file();

  const auto model = LoadedModel::from_bytes(bytes, {.path = "dir/small.gguf"});

  ASSERT_TRUE(model);
  EXPECT_EQ((*model)->name(), "small");
}

TEST(LoadedModel, RefusesAFileWithoutWhatAModelNeeds) {
  for (const char* name :
       {"general.architecture", "llama.block_count", "llama.context_length",
        "llama.embedding_length", "llama.feed_forward_length", "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon", "tokenizer.ggml.model", "tokenizer.ggml.tokens",
        "tokenizer.chat_template", "token_embd.weight", "output_norm.weight",
        "blk.1.ffn_down.weight", "blk.0.attn_norm.weight"}) {
    SCOPED_TRACE(name);
    GgufWriter writer = toy_model();
    writer.remove(name);

    const std::string says = problem(writer);

    EXPECT_THAT(says, StartsWith("toy.gguf: "));
    EXPECT_THAT(says, HasSubstr(name));
    EXPECT_THAT(says, HasSubstr("missing"));
  }
}

TEST(LoadedModel, RefusesValuesOutOfRange) {
  struct Case {
    const char* key;
    std::uint32_t value;
    const char* says;
  };
  const Case cases[] = {
      {"llama.block_count", 0, "llama.block_count is 0"},
      {"llama.block_count", 4000000000U, "llama.block_count is 4000000000"},
      {"llama.block_count", 3, "tensor blk.2.attn_norm.weight is missing"},
      {"llama.block_count", 1, "do not belong"},
      {"llama.embedding_length", 32, "heads of 8 values"},
      {"llama.embedding_length", 128, "tensor token_embd.weight is"},
      {"llama.feed_forward_length", 64, "ffn_gate.weight is"},
      {"llama.attention.head_count", 5, "evenly"},
      {"llama.attention.head_count_kv", 1, "attn_k.weight is"},
      {"llama.attention.head_count_kv", 0, "head_count_kv is 0"},
      {"llama.rope.dimension_count", 8, "llama.rope.dimension_count must be"},
      {"llama.expert_count", 8, "experts"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.says);
    GgufWriter writer = toy_model();
    writer.remove(c.key);
    writer.add_u32(c.key, c.value);

    EXPECT_THAT(problem(writer), HasSubstr(c.says));
  }
}

TEST(LoadedModel, RefusesWhatItWouldComputeWrongly) {
  GgufWriter other = toy_model();
  other.remove("general.architecture");
  other.add_text("general.architecture", "qwen2");
  EXPECT_THAT(problem(other), HasSubstr("only \"llama\""));

  GgufWriter bias = toy_model();
  bias.add_tensor("blk.0.attn_q.bias", TensorType::kF32, {64}, Bytes(256));
  EXPECT_THAT(problem(bias), HasSubstr("do not belong to a plain llama model"));

  GgufWriter scaled = toy_model();
  scaled.add_text("llama.rope.scaling.type", "yarn");
  EXPECT_THAT(problem(scaled), HasSubstr("llama.rope.scaling.type"));

  GgufWriter words = toy_model();
  words.remove("tokenizer.ggml.tokens");
  words.add_texts("tokenizer.ggml.tokens", {"a", "b"});
  EXPECT_THAT(problem(words), HasSubstr("the tokenizer has 2 tokens"));
}

TEST(LoadedModel, NamesTheFileThatCannotBeRead) {
  const auto absent = LoadedModel::load({.path = "/nowhere/model.gguf"});
  const auto folder = LoadedModel::load({.path = "/tmp"});

  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(absent.error().message, StartsWith("/nowhere/model.gguf: "));
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, HasSubstr("/tmp"));
}

// Whatever the bytes say: refused in one line, or it runs (on whatever numbers it holds).
TEST(LoadedModel, ADamagedModelIsRefusedOrRuns) {
  const Bytes whole = toy_model({.layers = 1, .context = 32}).file();
  Rng rng(7);
  int ran = 0;
  for (int round = 0; round < 150; ++round) {
    Bytes bytes = whole;
    for (std::uint64_t n = rng.below(6) + 1; n > 0; --n) {
      bytes[rng.below(bytes.size())] =
          rng.below(2) == 0 ? std::byte{0xff} : static_cast<std::byte>(rng.below(256));
    }
    auto model = LoadedModel::from_bytes(bytes, {.path = "toy.gguf"});
    if (!model) {
      EXPECT_EQ(model.error().message.find('\n'), std::string::npos);
      continue;
    }
    auto engine = Engine::on_model(*std::move(model), {.kv_bytes = 1 << 20, .threads = 1});
    if (!engine || !(*engine)->submit({.prompt = {1, 2, 3}, .max_tokens = 3})) {
      continue;
    }
    std::vector<TokenEvent> events;
    while ((*engine)->step(events)) {
    }
    ++ran;
  }
  EXPECT_GT(ran, 10);
}

}  // namespace
}  // namespace spillway
