#include "wire/otlp.h"

#include <nlohmann/json.hpp>

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

Json attribute(const std::string& key, Json value) {
  return {{"key", key}, {"value", std::move(value)}};
}

std::string nanos(WallTime t) {
  return std::to_string(t.time_since_epoch().count());
}

Json span_json(const OtlpSpan& span) {
  Json attributes = Json::array();
  for (const auto& [key, text] : span.texts) {
    attributes.push_back(attribute(key, {{"stringValue", text}}));
  }
  for (const auto& [key, number] : span.numbers) {
    attributes.push_back(attribute(key, {{"intValue", std::to_string(number)}}));
  }
  Json json{{"traceId", span.trace_id}, {"spanId", span.span_id}};
  if (!span.parent_span_id.empty()) {
    json["parentSpanId"] = span.parent_span_id;
  }
  json["name"] = span.name;
  json["kind"] = 2;  // SPAN_KIND_SERVER
  json["startTimeUnixNano"] = nanos(span.start);
  json["endTimeUnixNano"] = nanos(span.end);
  json["attributes"] = std::move(attributes);
  json["status"] = span.failed ? Json{{"code", 2}, {"message", span.error}} : Json::object();
  return json;
}

}  // namespace

std::string otlp_body(std::string_view service_name, std::span<const OtlpSpan> spans) {
  Json list = Json::array();
  for (const OtlpSpan& span : spans) {
    list.push_back(span_json(span));
  }
  const Json service = attribute("service.name", {{"stringValue", service_name}});
  const Json scope{{"scope", {{"name", "spillway"}}}, {"spans", std::move(list)}};
  const Json resource{{"resource", {{"attributes", Json::array({service})}}},
                      {"scopeSpans", Json::array({scope})}};
  const Json body{{"resourceSpans", Json::array({resource})}};
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace spillway
