#include "observe/request_log.h"

#include <cmath>
#include <ctime>
#include <iterator>

#include <fmt/format.h>

#include "wire/openai_error.h"

namespace spillway {
namespace {

double milliseconds(Duration d) {
  return std::round(to_milliseconds(d) * 1000) / 1000;
}

}  // namespace

std::string iso_time(WallTime time) {
  const auto since =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = since / 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     since % 1000);
}

// Written by hand: a JSON library's tree costs more than the request itself (docs/performance.md).
std::string log_line(const RequestRecord& r, std::string_view service_name) {
  std::string out;
  out.reserve(700);
  const auto text = [&out](std::string_view key, std::string_view value) {
    out.append(out.empty() ? "{\"" : ",\"").append(key).append("\":");
    append_json_string(out, value);
  };
  const auto number = [&out](std::string_view key, auto value) {
    fmt::format_to(std::back_inserter(out), ",\"{}\":{}", key, value);
  };
  text("time", iso_time(r.started));
  text("trace_id", r.trace_id);
  text("span_id", r.span_id);
  text("service_name", service_name);
  text("request_id", r.request_id);
  text("tenant", r.tenant);
  text("class", name_of(r.qos_class));
  text("method", r.method);
  text("route", r.route);
  text("model", r.model);
  text("pool", r.pool);
  text("replica", r.replica);
  number("level", r.level);
  text("actions", r.actions);
  number("streamed", r.streamed);
  number("retries", r.retries);
  number("failovers", r.failovers);
  number("prompt_tokens", r.prompt_tokens);
  number("output_tokens", r.output_tokens);
  number("queue_ms", milliseconds(r.queue_time));
  number("ttft_ms", milliseconds(r.time_to_first_token));
  number("total_ms", milliseconds(r.total_time));
  number("status", r.status);
  text("outcome", name_of(r.outcome));
  if (r.unreadable > 0) {
    number("unreadable_events", r.unreadable);
  }
  if (r.usage_counted) {
    text("usage", "counted");  // the engine told none
  }
  if (!r.error.empty()) {
    text("error", r.error);
  }
  out.push_back('}');
  return out;
}

OtlpSpan to_span(const RequestRecord& r) {
  OtlpSpan span{.trace_id = r.trace_id,
                .span_id = r.span_id,
                .parent_span_id = r.parent_span_id,
                .name = r.method + " " + std::string(r.route),
                .start = r.started,
                .end = r.started + r.total_time};
  span.texts = {
      {"http.request.method", r.method}, {"http.route", std::string(r.route)},
      {"gen_ai.request.model", r.model}, {"spillway.request_id", r.request_id},
      {"spillway.tenant", r.tenant},     {"spillway.class", std::string(name_of(r.qos_class))},
      {"spillway.pool", r.pool},         {"spillway.replica", r.replica},
      {"spillway.actions", r.actions},   {"spillway.outcome", std::string(name_of(r.outcome))}};
  span.numbers = {{"http.response.status_code", r.status},
                  {"spillway.level", r.level},
                  {"gen_ai.usage.input_tokens", r.prompt_tokens},
                  {"gen_ai.usage.output_tokens", r.output_tokens}};
  span.failed = r.status == 0 || r.status >= 500 || (r.outcome != Outcome::kOk && r.status < 400);
  span.error = r.error;
  return span;
}

}  // namespace spillway
