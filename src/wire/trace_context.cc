#include "wire/trace_context.h"

#include <algorithm>

namespace spillway {
namespace {

bool is_hex(std::string_view s) {
  return std::ranges::all_of(
      s, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool all_zero(std::string_view s) {
  return std::ranges::all_of(s, [](char c) { return c == '0'; });
}

}  // namespace

std::optional<TraceContext> parse_traceparent(std::string_view header) {
  // version "-" trace-id "-" parent-id "-" trace-flags; later versions may add fields behind.
  if (header.size() < 55 || header[2] != '-' || header[35] != '-' || header[52] != '-') {
    return std::nullopt;
  }
  const std::string_view version = header.substr(0, 2);
  const std::string_view trace = header.substr(3, 32);
  const std::string_view span = header.substr(36, 16);
  const std::string_view flags = header.substr(53, 2);
  if (!is_hex(version) || !is_hex(trace) || !is_hex(span) || !is_hex(flags) || version == "ff" ||
      all_zero(trace) || all_zero(span)) {
    return std::nullopt;
  }
  if (version == "00" ? header.size() != 55 : header.size() > 55 && header[55] != '-') {
    return std::nullopt;
  }
  const char low = flags[1];
  const int digit = low <= '9' ? low - '0' : low - 'a' + 10;
  return TraceContext{std::string(trace), std::string(span), (digit & 1) != 0};
}

void append_traceparent(std::string& out, const TraceContext& context) {
  out.append("00-").append(context.trace_id).append("-").append(context.span_id);
  out.append(context.sampled ? "-01" : "-00");
}

std::string to_traceparent(const TraceContext& context) {
  std::string out;
  append_traceparent(out, context);
  return out;
}

}  // namespace spillway
