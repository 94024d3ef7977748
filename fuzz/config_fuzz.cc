// Configurations and policies: any text is taken or refused; a refusal names the file and a line.
#include "base/check.h"
#include "fuzz/cuts.h"
#include "policy/config.h"
#include "policy/policy.h"

namespace {

template <class T>
void check_message(const spillway::Result<T>& result) {
  if (!result) {
    CHECK(result.error().message.starts_with("f.yaml:"));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spillway;
  const std::string_view text = as_text(data, size);
  std::vector<Finding> warnings;
  check_message(load_config(text, "f.yaml", &warnings));
  check_message(load_policy(text, "f.yaml", &warnings));
  return 0;
}
