#pragma once
// Spans as an OTLP/HTTP JSON body (opentelemetry-proto, trace/v1; JSON mapping of the OTLP
// specification: ids as hex, 64-bit integers as strings). Pure; anybody may use it.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"

namespace spillway {

struct OtlpSpan {
  std::string trace_id;
  std::string span_id;
  std::string parent_span_id;  // empty: a root
  std::string name;
  WallTime start;
  WallTime end;
  std::vector<std::pair<std::string, std::string>> texts;
  std::vector<std::pair<std::string, std::int64_t>> numbers;
  bool failed = false;
  std::string error;
};

std::string otlp_body(std::string_view service_name, std::span<const OtlpSpan> spans);

}  // namespace spillway
