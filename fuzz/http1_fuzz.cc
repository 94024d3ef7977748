// Heads and bodies of HTTP/1.1: what is accepted can be written again and means the same; bodies do
// not depend on where the reads end.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "fuzz/cuts.h"
#include "wire/http1.h"

namespace spillway {
namespace {

bool within(std::string_view part, std::string_view whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

struct Decoded {
  std::string payload;
  int status = 0;  // of an error
  bool done = false;
};

Decoded decode(BodyFraming framing, const std::vector<std::string_view>& pieces) {
  Decoded out;
  BodyDecoder decoder(framing);
  std::string pending;
  for (const std::string_view piece : pieces) {
    pending.append(piece);
    while (!decoder.done()) {
      auto step = decoder.decode(pending);
      if (const auto* error = std::get_if<HttpError>(&step)) {
        out.status = error->status;
        return out;
      }
      const auto& got = std::get<BodyDecoder::Piece>(step);
      CHECK(got.consumed <= pending.size() && within(got.payload, pending));
      out.payload.append(got.payload);
      if (got.consumed == 0) {
        break;
      }
      pending.erase(0, got.consumed);
    }
  }
  out.done = decoder.done();
  return out;
}

void check_request(std::string_view head) {
  const auto parsed = parse_request_head(head, {});
  const auto* request = std::get_if<RequestHead>(&parsed);
  if (request == nullptr) {
    CHECK(std::get<HttpError>(parsed).status >= 400);
    return;
  }
  CHECK(within(request->method, head) && within(request->target, head));
  std::string again = std::string(request->method) + " " + std::string(request->target) +
                      " HTTP/1." + std::to_string(request->minor_version) + "\r\n";
  for (const HeaderField& field : request->fields) {
    CHECK(within(field.name, head) && within(field.value, head));
    append_field(again, field.name, field.value);
  }
  again += "\r\n";
  CHECK(find_head_end(again, 0) == again.size());
  const auto second = parse_request_head(again, {.bytes = again.size()});
  const auto* same = std::get_if<RequestHead>(&second);
  CHECK(same != nullptr && same->path == request->path &&
        same->fields.size() == request->fields.size());
  CHECK(same->framing.kind == request->framing.kind &&
        same->framing.length == request->framing.length && same->keep_alive == request->keep_alive);
}

}  // namespace
}  // namespace spillway

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spillway;
  std::string_view input = as_text(data, size);
  const std::uint8_t how = take_byte(input);
  const auto end = find_head_end(input, 0);
  std::string grown;
  std::optional<std::size_t> found;
  for (const std::string_view piece : cut(input, how)) {
    const std::size_t before = grown.size();
    grown.append(piece);
    found = found ? found : find_head_end(grown, before);
  }
  CHECK(found == end);
  if (end) {
    check_request(input.substr(0, *end));
    (void)parse_response_head(input.substr(0, *end), {}, how % 2 == 0);
  }
  const std::string_view body = end ? input.substr(*end) : input;
  for (const BodyFraming framing : {BodyFraming{BodyFraming::Kind::kChunked},
                                    BodyFraming{BodyFraming::Kind::kLength, how * 3U}}) {
    const Decoded whole = decode(framing, {body});
    const Decoded pieces = decode(framing, cut(body, how));
    CHECK(whole.status == pieces.status && whole.done == pieces.done);
    CHECK(whole.status != 0 || whole.payload == pieces.payload);
  }
  return 0;
}
