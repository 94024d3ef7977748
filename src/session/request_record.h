#pragma once
// What is known about one request when it has ended: the source of its log line, its span and its
// metrics. A value, written by the session, read by observe. Prompts and replies are not in it, on
// purpose.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/time.h"
#include "policy/qos_class.h"

namespace spillway {

// How a request ended. Every request ends as exactly one of these.
enum class Outcome {
  kOk,           // the whole reply was passed on
  kInvalid,      // the caller's mistake: 4xx without asking an engine
  kRefused,      // shed by the ladder, or no room: 429
  kUnavailable,  // no replica could be reached: 502 or 503
  kEngineError,  // the engine answered with an error status or an error event
  kEngineCut,    // the engine's reply ended before it was whole
  kTimeout,      // a deadline passed
  kCallerGone,   // the caller went away first
  kBroken,       // a broken invariant of ours: 500
};

constexpr std::size_t kOutcomeCount = 9;

constexpr std::string_view name_of(Outcome outcome) {
  constexpr std::array<std::string_view, kOutcomeCount> kNames = {
      "ok",         "invalid", "refused",     "unavailable", "engine_error",
      "engine_cut", "timeout", "caller_gone", "broken"};
  return kNames[static_cast<std::size_t>(outcome)];
}

struct RequestRecord {
  WallTime started;
  Duration queue_time{};           // from arrival to the moment its bytes went to a replica
  Duration time_to_first_token{};  // from arrival; zero when no token came
  Duration total_time{};           // from arrival to the last byte given to the caller
  std::string request_id;
  std::string trace_id;        // 32 hex digits
  std::string span_id;         // 16 hex digits, ours
  std::string parent_span_id;  // 16 hex digits, the caller's; empty when the trace begins here
  bool sampled = true;         // W3C trace flag; a span is exported only when set
  std::string tenant;
  std::string method;
  std::string_view route;  // its pattern, static: "/v1/chat/completions", "other" when unknown
  std::string model;       // as the caller named it
  std::string pool;        // empty when none was chosen
  std::string replica;     // host:port; empty when none was chosen
  QosClass qos_class = QosClass::kNormal;
  int level = 0;
  std::string actions;  // as in x-spillway-actions; empty when nothing was done
  bool streamed = false;
  int retries = 0;                 // attempts after an engine answered with an error
  int failovers = 0;               // moves away from a replica that was not there
  std::int64_t unreadable = 0;     // events of the stream that are no JSON; passed on unchanged
  bool usage_counted = false;      // the engine told no usage: tokens are our own count
  std::int64_t prompt_tokens = 0;  // as the engine counted, else our estimate
  std::int64_t output_tokens = 0;
  int status = 0;  // HTTP status given to the caller; 0 when it went away before
  Outcome outcome = Outcome::kOk;
  std::string error;  // one line, for people; empty when ok
};

}  // namespace spillway
