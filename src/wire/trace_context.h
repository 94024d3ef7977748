#pragma once
// W3C Trace Context, level 1: the traceparent header. Pure functions; anybody may call them.

#include <optional>
#include <string>
#include <string_view>

namespace spillway {

struct TraceContext {
  std::string trace_id;  // 32 lower-case hex digits, not all zero
  std::string span_id;   // 16 lower-case hex digits, not all zero
  bool sampled = true;
};

// Nothing when the header is malformed; then a trace begins here (section 3.2.2.3 and 4.3).
std::optional<TraceContext> parse_traceparent(std::string_view header);
void append_traceparent(std::string& out, const TraceContext& context);
std::string to_traceparent(const TraceContext& context);

}  // namespace spillway
