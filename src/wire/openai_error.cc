#include "wire/openai_error.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace spillway {

using Json = nlohmann::ordered_json;

std::string json_string(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append_json_string(std::string& out, std::string_view text) {
  const bool plain = std::ranges::all_of(
      text, [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  if (plain) {
    out.append("\"").append(text).append("\"");
  } else {
    out.append(json_string(text));
  }
}

std::string to_json(const OpenAiError& error) {
  const auto text_or_null = [](const std::string& s) {
    return s.empty() ? Json(nullptr) : Json(s);
  };
  const Json body{{"error",
                   {{"message", error.message},
                    {"type", error.type},
                    {"param", text_or_null(error.param)},
                    {"code", text_or_null(error.code)}}}};
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace spillway
