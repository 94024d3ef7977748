#include "engine/gguf.h"

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace spillway {
namespace {

// Writes a GGUF by hand.
class Writer {
 public:
  template <class T>
  Writer& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);  // NOLINT: a file is bytes
    return *this;
  }
  Writer& text(std::string_view s) {
    number<std::uint64_t>(s.size());
    bytes_.append(s);
    return *this;
  }
  Writer& raw(std::string_view s) {
    bytes_.append(s);
    return *this;
  }
  std::string padded() const { return bytes_ + std::string((32 - bytes_.size() % 32) % 32, '\0'); }

 private:
  std::string bytes_;
};

// One key and one F32 tensor of two rows of three.
std::string small_file(std::uint64_t dim0 = 3, std::uint64_t dim1 = 2, std::uint32_t type = 0,
                       std::uint64_t offset = 0) {
  Writer w;
  w.raw("GGUF").number<std::uint32_t>(3).number<std::uint64_t>(1).number<std::uint64_t>(1);
  w.text("general.name").number<std::uint32_t>(8).text("toy");
  w.text("a.weight").number<std::uint32_t>(2).number(dim0).number(dim1).number(type).number(offset);
  return w.padded() + std::string(32, '\0');
}

Result<GgufFile> parse(const std::string& bytes) {
  return parse_gguf(std::as_bytes(std::span(bytes)));
}

TEST(Gguf, ReadsKeysAndTensors) {
  const std::string bytes = small_file();
  const auto file = parse(bytes);

  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->text("general.name"), "toy");
  ASSERT_NE(file->tensor("a.weight"), nullptr);
  EXPECT_EQ(file->tensor("a.weight")->bytes.size(), 24U);
  EXPECT_EQ(file->tensor("b.weight"), nullptr);
}

TEST(Gguf, RefusesHostileFilesWithOneLine) {
  std::string magic = small_file();
  magic[0] = 'X';
  std::string version = small_file();
  version[4] = 9;
  std::string tensors = small_file();
  std::memset(tensors.data() + 8, 0x7f, 8);
  std::string keys = small_file();
  std::memset(keys.data() + 16, 0x7f, 8);
  const std::vector<std::pair<const char*, std::string>> cases = {
      {"empty", ""},
      {"wrong magic", magic},
      {"unknown version", version},
      {"more tensors than bytes", tensors},
      {"more keys than bytes", keys},
      {"offset beyond the file", small_file(3, 2, 0, 1U << 20U)},
      {"offset not aligned", small_file(3, 2, 0, 7)},
      {"dimensions overflow", small_file(1ULL << 62U, 1ULL << 62U)},
      {"unknown tensor type", small_file(3, 2, 99)},
      {"row that fills no block", small_file(3, 2, 8)},
      {"tensor beyond the file", small_file(300, 200)},
  };

  for (const auto& [name, bytes] : cases) {
    SCOPED_TRACE(name);
    const auto file = parse(bytes);

    ASSERT_FALSE(file.ok());
    EXPECT_FALSE(file.error().message.empty());
    EXPECT_EQ(file.error().message.find('\n'), std::string::npos);
  }
}

TEST(Gguf, SurvivesTruncationAndDamageAnywhere) {
  const std::string good = small_file();
  for (std::size_t n = 0; n < good.size(); ++n) {
    static_cast<void>(parse(good.substr(0, n)).ok());
  }
  Rng rng(17);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (std::uint64_t edits = 1 + rng.below(4); edits > 0; --edits) {
      bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    }
    static_cast<void>(parse(bytes).ok());
  }
}

}  // namespace
}  // namespace spillway
