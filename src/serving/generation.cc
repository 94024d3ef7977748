#include "serving/generation.h"

#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace spillway {
namespace {

using Json = nlohmann::json;

struct Refused {
  OpenAiError error;
};

[[noreturn]] void refuse(const std::string& message, const std::string& param) {
  throw Refused{{.message = message, .param = param}};
}

// A number within bounds; absent and null leave `out` alone.
template <class T>
void read_number(const Json& body, const char* key, double low, double high, T& out) {
  const auto it = body.find(key);
  if (it == body.end() || it->is_null()) {
    return;
  }
  const bool integral = std::is_integral_v<T>;
  if (integral ? !it->is_number_integer() : !it->is_number()) {
    refuse(fmt::format("'{}' must be a {}number.", key, integral ? "whole " : ""), key);
  }
  const auto value = it->get<double>();
  if (value < low || value > high) {
    refuse(fmt::format("'{}' must be from {} to {}.", key, low, high), key);
  }
  out = it->get<T>();
}

void read_stop(const Json& body, GenerationRequest& out) {
  const auto it = body.find("stop");
  if (it == body.end() || it->is_null()) {
    return;
  }
  const Json list = it->is_string() ? Json::array({*it}) : *it;
  if (!list.is_array() || list.size() > 16) {
    refuse("'stop' must be a string or a list of at most 16.", "stop");
  }
  for (const Json& item : list) {
    if (!item.is_string() || item.get_ref<const std::string&>().empty()) {
      refuse("'stop' must hold strings that are not empty.", "stop");
    }
    out.stop.push_back(item.get<std::string>());
  }
}

void read_token_prompt(const Json& body, GenerationRequest& out) {
  const auto it = body.find("prompt");
  if (it == body.end() || !it->is_array() || it->empty()) {
    return;
  }
  for (const Json& item : *it) {
    if (!item.is_number_integer() || item.get<std::int64_t>() < 0 ||
        item.get<std::int64_t>() > std::numeric_limits<TokenId>::max()) {
      refuse(
          "'prompt' must be one string or one list of token ids; several prompts are not "
          "supported.",
          "prompt");
    }
    out.prompt_tokens.push_back(item.get<TokenId>());
  }
}

// nlohmann keeps the last of two equal keys; here they are an error.
Json parse_without_duplicates(std::string_view body) {
  std::set<std::string> keys;
  return Json::parse(body, [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key &&
        !keys.insert(parsed.get<std::string>()).second) {
      refuse(fmt::format("The key '{}' appears twice.", parsed.get<std::string>()),
             parsed.get<std::string>());
    }
    return true;
  });
}

void read_sampling(const Json& body, GenerationRequest& out) {
  int n = 1;
  read_number(body, "n", 1, 1, n);
  read_number(body, "temperature", 0, 100, out.temperature);
  read_number(body, "top_p", 0, 1, out.top_p);
  read_number(body, "top_k", -1, 1'000'000, out.top_k);
  read_number(body, "priority", -1'000'000, 1'000'000, out.priority);
  std::int64_t seed = -1;
  read_number(body, "seed", -9e15, 9e15, seed);
  if (body.contains("seed") && !body["seed"].is_null()) {
    out.seed = static_cast<std::uint64_t>(seed);
  }
  std::int64_t output = 0;
  read_number(body, "sim_output_tokens", 1, 1e9, output);
  if (output > 0) {
    out.sim_output_tokens = output;
  }
  if (body.contains("ignore_eos")) {
    out.ignore_eos = body["ignore_eos"].is_boolean() && body["ignore_eos"].get<bool>();
  }
}

}  // namespace

std::variant<GenerationRequest, OpenAiError> parse_generation(OpenAiRoute route,
                                                              std::string_view body,
                                                              OpenAiRequestParser& parser) {
  auto parsed = parser.parse(route, body);
  if (auto* error = std::get_if<OpenAiError>(&parsed)) {
    return std::move(*error);
  }
  auto& request = std::get<OpenAiRequest>(parsed);
  GenerationRequest out{.chat = route == OpenAiRoute::kChat,
                        .model = std::move(request.model),
                        .prompt = std::move(request.prompt),
                        .max_tokens = request.max_tokens,
                        .stream = request.stream,
                        .include_usage = request.caller_asked_usage};
  for (RequestMessage& message : request.messages) {
    if (message.other_parts > 0) {
      return OpenAiError{.message = "This model reads text only.", .param = "messages"};
    }
    out.messages.push_back({std::move(message.role), std::move(message.text)});
  }
  if (out.max_tokens == 0) {
    return OpenAiError{.message = "'max_tokens' must be at least 1.", .param = "max_tokens"};
  }
  try {
    const Json json = parse_without_duplicates(body);
    read_stop(json, out);
    read_sampling(json, out);
    read_token_prompt(json, out);
  } catch (const Refused& refused) {
    return refused.error;
  } catch (const Json::exception&) {
    return OpenAiError{.message = "The body is not valid JSON.", .code = "invalid_json"};
  }
  return out;
}

}  // namespace spillway
