#include "engine/gguf.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/toy_gguf.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kHuge = ~std::uint64_t{0};

std::string problem(const Bytes& bytes) {
  const auto file = parse_gguf(bytes);
  return file ? "" : file.error().message;
}

// A header that claims these counts.
ByteWriter header(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
  ByteWriter out;
  out.put(std::uint32_t{0x46554747U}).put(version).put(tensors).put(keys);
  return out;
}

// A header and the beginning of one key.
ByteWriter key(std::string_view name, std::uint32_t type) {
  ByteWriter out = header(0, 1);
  out.put_text(name).put(type);
  return out;
}

struct TensorClaim {
  std::uint32_t dim_count = 1;
  std::vector<std::uint64_t> dims{32};
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
};

Bytes one_tensor(const TensorClaim& claim, std::size_t data = 128) {
  ByteWriter out = header(1, 0);
  out.put_text("t").put(claim.dim_count);
  for (const std::uint64_t dim : claim.dims) {
    out.put(dim);
  }
  out.put(claim.type).put(claim.offset);
  out.pad_to(32).put_bytes(Bytes(data));
  return out.bytes();
}

Bytes nested_arrays(int depth) {
  ByteWriter out = key("k", 9);
  for (int d = 0; d < depth; ++d) {
    out.put(std::uint32_t{9}).put(std::uint64_t{1});
  }
  return out.bytes();
}

Bytes key_twice() {
  ByteWriter out = header(0, 2);
  for (int i = 0; i < 2; ++i) {
    out.put_text("k").put(std::uint32_t{0}).put(std::uint8_t{1});
  }
  return out.bytes();
}

TEST(Gguf, ReadsValuesOfEveryKindThatModelsUse) {
  GgufWriter writer;
  writer.add_text("text", "hello");
  writer.add_u32("number", 7);
  writer.add_f32("fraction", 0.5F);
  writer.add_flag("flag", true);
  writer.add_texts("texts", {"a", "", "b c"});
  writer.add_i32s("numbers", {-1, 3});
  const Bytes bytes = writer.file();

  const auto file = parse_gguf(bytes);

  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(*file->text("text"), "hello");
  EXPECT_EQ(*file->integer("number"), 7U);
  EXPECT_EQ(*file->number("fraction"), 0.5);
  EXPECT_TRUE(*file->flag("flag"));
  EXPECT_THAT(*file->texts("texts"), ElementsAre("a", "", "b c"));
  EXPECT_THAT(*file->integers("numbers"), ElementsAre(-1, 3));
}

TEST(Gguf, FindsTensorsAtTheirOffsets) {
  Rng rng(1);
  const Bytes first = random_rows(TensorType::kF32, 3, 1.0F, rng);
  const Bytes second = random_rows(TensorType::kQ8_0, 64, 1.0F, rng);
  GgufWriter writer;
  writer.add_tensor("first", TensorType::kF32, {3}, first);
  writer.add_tensor("second", TensorType::kQ8_0, {32, 2}, second);
  const Bytes bytes = writer.file();

  const auto file = parse_gguf(bytes);

  ASSERT_TRUE(file) << file.error().message;
  ASSERT_NE(file->tensor("second"), nullptr);
  EXPECT_EQ(file->tensor("second")->dims[1], 2U);
  EXPECT_TRUE(std::ranges::equal(file->tensor("first")->bytes, first));
  EXPECT_TRUE(std::ranges::equal(file->tensor("second")->bytes, second));
  EXPECT_EQ(file->tensor("third"), nullptr);
}

TEST(Gguf, NamesTheKeyThatIsMissingOrOfAnotherKind) {
  GgufWriter writer;
  writer.add_text("text", "hello");
  const Bytes bytes = writer.file();
  const auto file = parse_gguf(bytes);
  ASSERT_TRUE(file);

  EXPECT_THAT(file->integer("text").error().message, HasSubstr("key text is not an integer"));
  EXPECT_THAT(file->texts("text").error().message, HasSubstr("key text is not an array"));
  EXPECT_THAT(file->text("other").error().message, HasSubstr("key other is missing"));
}

struct Hostile {
  const char* name;
  Bytes bytes;
  const char* says;
};

void expect_refused(std::span<const Hostile> cases) {
  for (const Hostile& c : cases) {
    SCOPED_TRACE(c.name);
    const std::string says = problem(c.bytes);
    EXPECT_THAT(says, HasSubstr(c.says));
    EXPECT_EQ(says.find('\n'), std::string::npos);
  }
}

TEST(Gguf, RefusesHostileHeadersAndKeysWithOneClearLine) {
  const auto array = [](std::uint32_t element, std::uint64_t count) {
    return key("k", 9).put(element).put(count).bytes();
  };
  const Hostile cases[] = {
      {"empty", {}, "no GGUF file"},
      {"wrong magic", ByteWriter().put_text("GGML and more of it").bytes(), "no GGUF file"},
      {"only magic", ByteWriter().put(std::uint32_t{0x46554747U}).bytes(), "ends inside"},
      {"version 1", header(0, 0, 1).bytes(), "version 1 is not supported"},
      {"big-endian", header(0, 0, 0x03000000U).bytes(), "is not supported"},
      {"tensor count", header(kHuge, 0).bytes(), "tensors, more than"},
      {"key count", header(0, kHuge).bytes(), "metadata keys, more than"},
      {"key length", header(0, 1).put(kHuge).put(kHuge).bytes(), "ends inside a metadata key"},
      {"no key", key("", 0).put(0).bytes(), "key of 0 bytes"},
      {"value type", key("k", 99).put(0).bytes(), "unknown value type 99"},
      {"string length", key("k", 8).put(kHuge).bytes(), "value of key k"},
      {"array count", array(5, kHuge), "elements, more than"},
      {"array overflow", array(10, kHuge / 4), "elements, more than"},
      {"string array count", array(8, kHuge), "elements, more than"},
      {"deep arrays", nested_arrays(100), "nested more than"},
      {"key twice", key_twice(), "key k stands twice"},
      {"alignment 0", key("general.alignment", 4).put(0).bytes(), "general.alignment is 0"},
      {"alignment 12", key("general.alignment", 4).put(12).bytes(), "general.alignment is 12"},
      {"alignment text", key("general.alignment", 8).put_text("32").bytes(), "not an integer"},
  };
  expect_refused(cases);
}

TEST(Gguf, RefusesHostileTensorsWithOneClearLine) {
  const Hostile cases[] = {
      {"no dimensions", one_tensor({.dim_count = 0, .dims = {}}), "0 dimensions"},
      {"dimension count", one_tensor({.dim_count = 5, .dims = {1, 1, 1, 1, 1}}), "5 dimensions"},
      {"zero dimension", one_tensor({.dims = {0}}), "dimension 0 is 0"},
      {"overflow", one_tensor({.dim_count = 2, .dims = {kHuge / 2, 3}}), "overflow"},
      {"overflow to a small size", one_tensor({.dim_count = 3, .dims = {1U << 31U, 1U << 31U, 4}}),
       "overflow"},
      {"type", one_tensor({.type = 39}), "type 39 is not supported"},
      {"removed type", one_tensor({.type = 4}), "type 4 is not supported"},
      {"rows of half a block", one_tensor({.dims = {33}, .type = 8}), "do not divide"},
      {"offset unaligned", one_tensor({.offset = 8}), "no multiple of the alignment"},
      {"offset beyond", one_tensor({.offset = 1U << 20U}), "reach beyond"},
      {"offset overflow", one_tensor({.offset = kHuge - 31}), "reach beyond"},
      {"truncated data", one_tensor({}, 64), "reach beyond"},
      {"truncated description",
       header(1, 0).put_text("a name that is long enough").put(std::uint32_t{1}).bytes(),
       "ends inside tensor"},
  };
  expect_refused(cases);
}

TEST(Gguf, RefusesATensorNamedTwice) {
  GgufWriter writer;
  writer.add_tensor("t", TensorType::kF32, {1}, Bytes(4));
  writer.add_tensor("t", TensorType::kF32, {1}, Bytes(4));

  EXPECT_THAT(problem(writer.file()), HasSubstr("tensor t stands twice"));
}

TEST(Gguf, QuotesNoControlCharactersOfTheFile) {
  EXPECT_THAT(problem(key("bad\nkey\x1b[2J", 99).put(0).bytes()), HasSubstr("key bad?key?[2J"));
}

TEST(Gguf, RefusesEveryTruncationOfAFile) {
  const Bytes whole = toy_model().file();
  ASSERT_EQ(problem(whole), "");

  for (std::size_t size = 0; size < whole.size(); size += size < 2048 ? 1 : 997) {
    EXPECT_NE(problem(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))), "")
        << size;
  }
}

// Under the sanitizers this is a small fuzzer; the seed makes each finding repeatable.
TEST(Gguf, SurvivesMutatedBytes) {
  const Bytes whole = toy_model({.layers = 1}).file();
  constexpr std::uint64_t kDescribed = 9000;  // keys and tensor descriptions
  Rng rng(42);

  for (int round = 0; round < 2000; ++round) {
    Bytes bytes = whole;
    for (std::uint64_t n = rng.below(4) + 1; n > 0; --n) {
      const std::uint64_t at = rng.below(rng.below(2) == 0 ? 64 : kDescribed);
      bytes[at] = rng.below(2) == 0 ? std::byte{0xff} : static_cast<std::byte>(rng.below(256));
    }
    const auto file = parse_gguf(bytes);
    if (file) {
      static_cast<void>(file->texts("tokenizer.ggml.tokens").ok());
      static_cast<void>(file->integers("tokenizer.ggml.token_type").ok());
      static_cast<void>(file->number("llama.rope.freq_base").ok());
    }
  }
}

}  // namespace
}  // namespace spillway
