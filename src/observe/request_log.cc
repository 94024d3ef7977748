#include "observe/request_log.h"

#include <cmath>
#include <ctime>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

std::string log_line(const RequestRecord& r, std::string_view service_name) {
  using Json = nlohmann::ordered_json;
  Json line{{"time", iso_time(r.started)},
            {"trace_id", r.trace_id},
            {"span_id", r.span_id},
            {"service_name", service_name},
            {"request_id", r.request_id},
            {"tenant", r.tenant},
            {"class", name_of(r.qos_class)},
            {"method", r.method},
            {"route", r.route},
            {"model", r.model},
            {"pool", r.pool},
            {"replica", r.replica},
            {"level", r.level},
            {"actions", r.actions},
            {"streamed", r.streamed},
            {"retries", r.retries},
            {"failovers", r.failovers},
            {"prompt_tokens", r.prompt_tokens},
            {"output_tokens", r.output_tokens},
            {"queue_ms", milliseconds(r.queue_time)},
            {"ttft_ms", milliseconds(r.time_to_first_token)},
            {"total_ms", milliseconds(r.total_time)},
            {"status", r.status},
            {"outcome", name_of(r.outcome)}};
  if (r.unreadable > 0) {
    line["unreadable_events"] = r.unreadable;
  }
  if (r.usage_counted) {
    line["usage"] = "counted";  // the engine told none
  }
  if (!r.error.empty()) {
    line["error"] = r.error;
  }
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

OtlpSpan to_span(const RequestRecord& r) {
  OtlpSpan span{.trace_id = r.trace_id,
                .span_id = r.span_id,
                .parent_span_id = r.parent_span_id,
                .name = r.method + " " + r.route,
                .start = r.started,
                .end = r.started + r.total_time};
  span.texts = {
      {"http.request.method", r.method}, {"http.route", r.route},
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
