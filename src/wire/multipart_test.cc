#include "wire/multipart.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

using State = MultipartField::State;

constexpr std::string_view kBody =
    "--xx\r\nContent-Disposition: form-data; name=\"language\"\r\n\r\nen\r\n"
    "--xx\r\ncontent-type: text/plain\r\nCONTENT-DISPOSITION: form-data; filename=\"a\"; "
    "name=model\r\n\r\nwhisper-1\r\n"
    "--xx\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\r\n"
    "--xx--\r\n";

TEST(Multipart, FindsTheBoundary) {
  EXPECT_EQ(multipart_boundary("multipart/form-data; boundary=xx"), "xx");
  EXPECT_EQ(multipart_boundary("Multipart/Form-Data; charset=utf-8; Boundary=\"a b\""), "a b");
  EXPECT_FALSE(multipart_boundary("multipart/form-data"));
  EXPECT_FALSE(multipart_boundary("application/json; boundary=xx"));
  EXPECT_FALSE(multipart_boundary("multipart/form-data; boundary=" + std::string(71, 'x')));
}

TEST(Multipart, FindsAFieldAsSoonAsItIsThereWhole) {
  const std::size_t needed = kBody.find("whisper-1\r\n--xx") + 15;
  for (std::size_t n = 0; n < kBody.size(); ++n) {
    const MultipartField field = find_multipart_field(kBody.substr(0, n), "xx", "model");
    EXPECT_EQ(field.state, n < needed ? State::kNotYet : State::kFound) << n;
    if (n >= needed) {
      EXPECT_EQ(field.value, "whisper-1");
    }
  }
}

TEST(Multipart, SaysWhenAFieldDoesNotCome) {
  EXPECT_EQ(find_multipart_field(kBody, "xx", "absent").state, State::kAbsent);
  EXPECT_EQ(find_multipart_field("hello", "xx", "model").state, State::kAbsent);
  EXPECT_EQ(find_multipart_field("--", "xx", "model").state, State::kNotYet);
}

}  // namespace
}  // namespace spillway
