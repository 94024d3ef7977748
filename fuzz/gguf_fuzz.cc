// Model files: any bytes are refused in one line or give a model whose tokenizer and chat format
// work. Half of the inputs are taken as patches of a small valid file: that reaches further.
#include <algorithm>
#include <span>

#include "base/check.h"
#include "engine/loaded_model.h"
#include "engine/toy_gguf.h"
#include "fuzz/cuts.h"
#include "prompt/chat_format.h"

namespace spillway {
namespace {

void use(const LoadedModel& model, std::string_view text) {
  const std::vector<TokenId> tokens = model.tokenizer().encode(text);
  std::string back;
  for (const TokenId token : tokens) {
    back.append(model.tokenizer().bytes(token));
  }
  CHECK(back.size() <= text.size());
}

void load(const std::vector<std::byte>& bytes, std::string_view text) {
  const auto model = LoadedModel::from_bytes(bytes, {.path = "m"});
  if (model) {
    use(**model, text);
  } else {
    CHECK(model.error().message.find('\n') == std::string::npos);
  }
}

}  // namespace
}  // namespace spillway

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spillway;
  static const Bytes toy = toy_model().file();
  static const auto good = LoadedModel::from_bytes(toy, {.path = "m"});
  CHECK(good.ok());
  std::string_view input = as_text(data, size);
  const std::uint8_t how = take_byte(input);
  if (how % 4 == 0) {
    Bytes raw(input.size());
    std::ranges::copy(std::as_bytes(std::span(input)), raw.begin());
    load(raw, input);
    return 0;
  }
  if (how % 4 == 1) {
    const std::vector<TokenId> tokens = (*good)->tokenizer().encode(input);
    std::string back;
    for (const TokenId token : tokens) {
      back.append((*good)->tokenizer().bytes(token));
    }
    CHECK(back == input);  // its vocabulary has every byte
    return 0;
  }
  // Patches: an offset of two bytes, a length of one, the bytes. Most of the file is its head.
  Bytes patched = toy;
  while (input.size() > 3) {
    const std::size_t at =
        static_cast<std::uint8_t>(input[0]) * 256U + static_cast<std::uint8_t>(input[1]);
    const std::size_t count =
        std::min<std::size_t>(static_cast<std::uint8_t>(input[2]) % 9, input.size() - 3);
    for (std::size_t i = 0; i < count && at + i < patched.size(); ++i) {
      patched[at + i] = static_cast<std::byte>(input[3 + i]);
    }
    input.remove_prefix(3 + count);
  }
  load(patched, "hello <|im_start|> world");
  return 0;
}
