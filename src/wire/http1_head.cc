#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "wire/http1.h"

namespace spillway {
namespace {

// RFC 9110, section 5.6.2.
constexpr auto kTokenChars = [] {
  std::array<bool, 256> table{};
  for (const char c : std::string_view("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ")) {
    table[static_cast<unsigned char>(c)] = true;
  }
  return table;
}();

constexpr bool is_token_char(char c) {
  return kTokenChars[static_cast<unsigned char>(c)];
}

bool is_token(std::string_view s) {
  return !s.empty() && std::ranges::all_of(s, is_token_char);
}

// Visible ASCII, blank, tab and bytes above 127.
bool is_field_value(std::string_view s) {
  return std::ranges::all_of(s, [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return c == '\t' || (u >= 0x20 && u != 0x7f);
  });
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) {
    s.remove_prefix(1);
  }
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) {
    s.remove_suffix(1);
  }
  return s;
}

HttpError bad(std::string message, int status = 400) {
  return {status, std::move(message)};
}

// Takes one line that ends in CRLF off the front; nothing when a line ends otherwise.
std::optional<std::string_view> take_line(std::string_view& bytes) {
  const std::size_t end = bytes.find('\n');
  if (end == std::string_view::npos || end == 0 || bytes[end - 1] != '\r') {
    return std::nullopt;
  }
  const std::string_view line = bytes.substr(0, end - 1);
  bytes.remove_prefix(end + 1);
  if (line.find('\r') != std::string_view::npos) {
    return std::nullopt;
  }
  return line;
}

std::optional<HttpError> parse_fields(std::string_view bytes, const HeadLimits& limits,
                                      std::vector<HeaderField>& fields) {
  fields.reserve(16);
  while (true) {
    const auto line = take_line(bytes);
    if (!line) {
      return bad("a header line does not end in CRLF");
    }
    if (line->empty()) {
      return std::nullopt;
    }
    if (line->front() == ' ' || line->front() == '\t') {
      return bad("a header line is folded (obsolete line folding)");
    }
    const std::size_t colon = line->find(':');
    if (colon == std::string_view::npos || !is_token(line->substr(0, colon))) {
      return bad("a header line has no valid name");
    }
    const std::string_view value = trimmed(line->substr(colon + 1));
    if (!is_field_value(value)) {
      return bad("a header value holds control characters");
    }
    if (fields.size() >= limits.fields) {
      return bad("too many header lines", 431);
    }
    fields.push_back({line->substr(0, colon), value});
  }
}

struct Framing {
  std::optional<std::uint64_t> length;
  bool chunked = false;
};

// Any doubt about the length of the body is refused: that is what request smuggling lives on.
std::variant<Framing, HttpError> read_framing(const std::vector<HeaderField>& fields) {
  Framing framing;
  for (const HeaderField& field : fields) {
    if (equals_ignoring_case(field.name, "content-length")) {
      std::uint64_t length = 0;
      const char* end = field.value.data() + field.value.size();
      const auto [stopped, error] = std::from_chars(field.value.data(), end, length);
      if (error != std::errc{} || stopped != end || field.value.empty()) {
        return bad("Content-Length is not a number");
      }
      if (framing.length) {
        return bad("Content-Length appears twice");
      }
      framing.length = length;
    } else if (equals_ignoring_case(field.name, "transfer-encoding")) {
      if (framing.chunked) {
        return bad("Transfer-Encoding appears twice");
      }
      if (!equals_ignoring_case(field.value, "chunked")) {
        return bad("only the transfer coding chunked is supported", 501);
      }
      framing.chunked = true;
    }
  }
  if (framing.chunked && framing.length) {
    return bad("both Content-Length and Transfer-Encoding are given");
  }
  return framing;
}

// Does a comma-separated list hold this member?
bool lists(std::string_view value, std::string_view member) {
  while (!value.empty()) {
    const std::size_t comma = value.find(',');
    if (equals_ignoring_case(trimmed(value.substr(0, comma)), member)) {
      return true;
    }
    value = comma == std::string_view::npos ? std::string_view() : value.substr(comma + 1);
  }
  return false;
}

bool stays_open(const std::vector<HeaderField>& fields, int minor_version) {
  bool open = minor_version >= 1;
  for (const HeaderField& field : fields) {
    if (equals_ignoring_case(field.name, "connection")) {
      if (lists(field.value, "close")) {
        return false;
      }
      open = open || lists(field.value, "keep-alive");
    }
  }
  return open;
}

std::optional<HttpError> parse_version(std::string_view version, int& minor) {
  if (version.size() != 8 || !version.starts_with("HTTP/") || version[6] != '.') {
    return bad("the version is not HTTP/1.1");
  }
  if (version[5] != '1' || version[7] < '0' || version[7] > '9') {
    return bad("only HTTP/1.1 and HTTP/1.0 are spoken here", 505);
  }
  minor = version[7] == '0' ? 0 : 1;
  return std::nullopt;
}

std::optional<HttpError> parse_request_line(std::string_view line, RequestHead& head) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return bad("the request line is not METHOD TARGET VERSION");
  }
  head.method = line.substr(0, first);
  head.target = line.substr(first + 1, last - first - 1);
  if (!is_token(head.method)) {
    return bad("the method is not a token");
  }
  const bool visible =
      std::ranges::all_of(head.target, [](char c) { return c > 0x20 && c != 0x7f; });
  if (head.target.empty() || !visible) {
    return bad("the target holds blanks or bytes that must be encoded");
  }
  std::string_view path = head.target;
  if (const std::size_t scheme = path.find("://");
      scheme != std::string_view::npos && path.front() != '/') {
    const std::size_t slash = path.find('/', scheme + 3);  // absolute form, as sent to a proxy
    path = slash == std::string_view::npos ? std::string_view("/") : path.substr(slash);
  }
  if (path.front() != '/' && path != "*") {
    return bad("the target is not a path");
  }
  head.path = path.substr(0, path.find_first_of("?#"));
  return parse_version(line.substr(last + 1), head.minor_version);
}

std::optional<HttpError> check_host(const RequestHead& head) {
  const auto hosts = std::ranges::count_if(
      head.fields, [](const HeaderField& f) { return equals_ignoring_case(f.name, "host"); });
  if (hosts > 1) {
    return bad("Host appears twice");
  }
  if (hosts == 0 && head.minor_version >= 1) {
    return bad("Host is missing");
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> find_head_end(std::string_view bytes, std::size_t from) {
  // A bare LF is refused by the parser, yet it has to end the wait for more, so it counts here.
  std::size_t at = from > 3 ? from - 3 : 0;
  while ((at = bytes.find('\n', at)) != std::string_view::npos) {
    if (bytes.substr(at + 1).starts_with('\n')) {
      return at + 2;
    }
    if (bytes.substr(at + 1).starts_with("\r\n")) {
      return at + 3;
    }
    ++at;
  }
  return std::nullopt;
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [&](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::string_view> find_field(const std::vector<HeaderField>& fields,
                                           std::string_view name) {
  for (const HeaderField& field : fields) {
    if (equals_ignoring_case(field.name, name)) {
      return field.value;
    }
  }
  return std::nullopt;
}

bool is_hop_by_hop(std::string_view name) {
  static constexpr std::array<std::string_view, 10> kNames = {"connection",
                                                              "keep-alive",
                                                              "proxy-authenticate",
                                                              "proxy-authorization",
                                                              "proxy-connection",
                                                              "te",
                                                              "trailer",
                                                              "transfer-encoding",
                                                              "upgrade",
                                                              "content-length"};
  return std::ranges::any_of(kNames,
                             [&](std::string_view n) { return equals_ignoring_case(n, name); });
}

bool is_named_by_connection(const std::vector<HeaderField>& fields, std::string_view name) {
  return std::ranges::any_of(fields, [&](const HeaderField& field) {
    return equals_ignoring_case(field.name, "connection") && lists(field.value, name);
  });
}

std::variant<RequestHead, HttpError> parse_request_head(std::string_view bytes,
                                                        const HeadLimits& limits) {
  if (bytes.size() > limits.bytes) {
    return bad("the header is too large", 431);
  }
  RequestHead head;
  const auto line = take_line(bytes);
  if (!line) {
    return bad("the request line does not end in CRLF");
  }
  if (auto error = parse_request_line(*line, head)) {
    return *std::move(error);
  }
  if (auto error = parse_fields(bytes, limits, head.fields)) {
    return *std::move(error);
  }
  if (auto error = check_host(head)) {
    return *std::move(error);
  }
  auto framing = read_framing(head.fields);
  if (auto* error = std::get_if<HttpError>(&framing)) {
    return std::move(*error);
  }
  const auto& found = std::get<Framing>(framing);
  if (found.chunked && head.minor_version == 0) {
    return bad("HTTP/1.0 knows no Transfer-Encoding");
  }
  if (found.chunked) {
    head.framing.kind = BodyFraming::Kind::kChunked;
  } else if (found.length.value_or(0) > 0) {
    head.framing = {BodyFraming::Kind::kLength, *found.length};
  }
  head.keep_alive = stays_open(head.fields, head.minor_version);
  if (const auto expect = find_field(head.fields, "expect")) {
    if (!equals_ignoring_case(*expect, "100-continue")) {
      return bad("only the expectation 100-continue is known", 417);
    }
    head.expects_continue = head.minor_version >= 1;
  }
  return head;
}

std::variant<ResponseHead, HttpError> parse_response_head(std::string_view bytes,
                                                          const HeadLimits& limits,
                                                          bool to_head_request) {
  if (bytes.size() > limits.bytes) {
    return bad("the header is too large", 502);
  }
  ResponseHead head;
  const auto line = take_line(bytes);
  if (!line || line->size() < 12 || (*line)[8] != ' ') {
    return bad("this is no HTTP status line", 502);
  }
  if (auto error = parse_version(line->substr(0, 8), head.minor_version)) {
    return *std::move(error);
  }
  const std::string_view status = line->substr(9, 3);
  const auto [end, error] = std::from_chars(status.data(), status.data() + 3, head.status);
  if (error != std::errc{} || end != status.data() + 3 || head.status < 100 || head.status > 599) {
    return bad("this is no HTTP status line", 502);
  }
  if (auto problem = parse_fields(bytes, limits, head.fields)) {
    return *std::move(problem);
  }
  auto framing = read_framing(head.fields);
  if (auto* problem = std::get_if<HttpError>(&framing)) {
    return std::move(*problem);
  }
  const auto& found = std::get<Framing>(framing);
  const bool bodiless =
      to_head_request || head.status < 200 || head.status == 204 || head.status == 304;
  if (!bodiless) {
    if (found.chunked) {
      head.framing.kind = BodyFraming::Kind::kChunked;
    } else if (found.length) {
      head.framing = {*found.length > 0 ? BodyFraming::Kind::kLength : BodyFraming::Kind::kNone,
                      *found.length};
    } else {
      head.framing.kind = BodyFraming::Kind::kUntilClose;
    }
  }
  // RFC 9112, section 6.1: HTTP/1.0 knows no transfer coding; such a message ends its connection.
  const bool doubtful = found.chunked && head.minor_version == 0;
  head.keep_alive = head.framing.kind != BodyFraming::Kind::kUntilClose && !doubtful &&
                    stays_open(head.fields, head.minor_version);
  return head;
}

}  // namespace spillway
