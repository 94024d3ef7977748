#pragma once
// The little of multipart/form-data (RFC 7578) that a gateway has to read: where a small field's
// value lies in the beginning of a body. Pure; anybody may use it.

#include <optional>
#include <string>
#include <string_view>

namespace spillway {

// The boundary of a Content-Type; nothing when it is no multipart/form-data or has none.
std::optional<std::string> multipart_boundary(std::string_view content_type);

struct MultipartField {
  enum class State { kFound, kNotYet, kAbsent };
  State state = State::kNotYet;
  std::string_view value;  // within `body`
};

// Looks for a field in as much of the body as there is. kNotYet: more bytes may bring it.
MultipartField find_multipart_field(std::string_view body, std::string_view boundary,
                                    std::string_view name);

}  // namespace spillway
