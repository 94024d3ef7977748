#pragma once
// A request's record as its log line and as its span. Pure functions; anybody may call them.
// Prompts and replies are never in a record, so they are never in a log.

#include <string>
#include <string_view>

#include "session/request_record.h"
#include "wire/otlp.h"

namespace spillway {

// One line of JSON without the line end.
std::string log_line(const RequestRecord& record, std::string_view service_name);
OtlpSpan to_span(const RequestRecord& record);

// "2026-12-01T06:27:35.123Z"
std::string iso_time(WallTime time);

}  // namespace spillway
