// Server-sent events: the same events wherever the reads end; no byte is lost or made up.
#include <string>

#include "base/check.h"
#include "fuzz/cuts.h"
#include "wire/sse.h"

namespace spillway {
namespace {

struct Events {
  std::string raw;
  std::string data;  // of all events, each behind a mark
  bool too_large = false;
};

Events scan(const std::vector<std::string_view>& pieces) {
  Events out;
  SseScanner scanner(1000);
  for (const std::string_view piece : pieces) {
    const Status status = scanner.feed(piece, [&](const SseEvent& event) {
      out.raw.append(event.raw);
      if (event.has_data) {
        out.data.append("\x01").append(event.data);
      }
    });
    if (!status) {
      out.too_large = true;
      return out;
    }
  }
  out.raw.append(scanner.rest());
  return out;
}

}  // namespace
}  // namespace spillway

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spillway;
  std::string_view input = as_text(data, size);
  const std::uint8_t how = take_byte(input);
  const Events whole = scan({input});
  const Events pieces = scan(cut(input, how));
  if (!whole.too_large && !pieces.too_large) {
    CHECK(whole.raw == input && pieces.raw == input);
    CHECK(whole.data == pieces.data);
  }
  return 0;
}
