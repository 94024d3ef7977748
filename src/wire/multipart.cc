#include "wire/multipart.h"

#include <algorithm>

#include "wire/http1.h"

namespace spillway {
namespace {

// The value of a parameter such as name="model" of a header line; empty when absent.
std::string_view parameter(std::string_view line, std::string_view key) {
  std::size_t at = 0;
  while ((at = line.find(';', at)) != std::string_view::npos) {
    ++at;
    while (at < line.size() && (line[at] == ' ' || line[at] == '\t')) {
      ++at;
    }
    const std::string_view rest = line.substr(at);
    if (rest.size() <= key.size() || rest[key.size()] != '=' ||
        !equals_ignoring_case(rest.substr(0, key.size()), key)) {
      continue;
    }
    std::string_view value = rest.substr(key.size() + 1);
    if (value.starts_with('"')) {
      value.remove_prefix(1);
      return value.substr(0, value.find('"'));
    }
    return value.substr(0, value.find_first_of("; \t"));
  }
  return {};
}

}  // namespace

std::optional<std::string> multipart_boundary(std::string_view content_type) {
  constexpr std::string_view kType = "multipart/form-data";
  if (!equals_ignoring_case(content_type.substr(0, kType.size()), kType)) {
    return std::nullopt;
  }
  const std::string_view boundary = parameter(content_type, "boundary");
  // RFC 2046, section 5.1.1: 1 to 70 characters.
  if (boundary.empty() || boundary.size() > 70) {
    return std::nullopt;
  }
  return std::string(boundary);
}

MultipartField find_multipart_field(std::string_view body, std::string_view boundary,
                                    std::string_view name) {
  using State = MultipartField::State;
  const std::string delimiter = "--" + std::string(boundary);
  if (!body.starts_with(delimiter)) {
    const bool may_come = delimiter.starts_with(body);
    return {may_come ? State::kNotYet : State::kAbsent, {}};
  }
  const std::string next_delimiter = "\r\n" + delimiter;
  while (true) {
    body.remove_prefix(delimiter.size());
    if (body.starts_with("--")) {
      return {State::kAbsent, {}};
    }
    const std::size_t head_end = body.find("\r\n\r\n");
    if (head_end == std::string_view::npos) {
      return {State::kNotYet, {}};
    }
    std::string_view head = body.substr(0, head_end);
    body.remove_prefix(head_end + 4);
    const std::size_t end = body.find(next_delimiter);
    bool named = false;
    while (!head.empty()) {
      const std::size_t line_end = std::min(head.find("\r\n"), head.size());
      const std::string_view line = head.substr(0, line_end);
      constexpr std::string_view kDisposition = "content-disposition:";
      named = named || (equals_ignoring_case(line.substr(0, kDisposition.size()), kDisposition) &&
                        parameter(line, "name") == name);
      head.remove_prefix(std::min(line_end + 2, head.size()));
    }
    if (end == std::string_view::npos) {
      return {State::kNotYet, {}};
    }
    if (named) {
      return {State::kFound, body.substr(0, end)};
    }
    body.remove_prefix(end + 2);
  }
}

}  // namespace spillway
