#pragma once
// An error as OpenAI's clients expect it: {"error":{"message","type","param","code"}}. A value;
// anybody may use it.

#include <string>
#include <string_view>

namespace spillway {

struct OpenAiError {
  int status = 400;  // HTTP status that goes with it
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;  // empty: null
  std::string code;   // empty: null
};

// The JSON body.
std::string to_json(const OpenAiError& error);

// `text` as a JSON string, quotes included. Invalid UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);
// The same, appended; quick where nothing has to be escaped.
void append_json_string(std::string& out, std::string_view text);

}  // namespace spillway
