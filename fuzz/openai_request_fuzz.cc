// Requests: what we accept is JSON for others too; an edit changes what it is to change and nothing
// else; without edits no byte changes.
#include <string>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "fuzz/cuts.h"
#include "wire/openai_request.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spillway;
  static OpenAiRequestParser parser;
  std::string_view input = as_text(data, size);
  const std::uint8_t how = take_byte(input);
  const OpenAiRoute route = how % 3 == 0   ? OpenAiRoute::kChat
                            : how % 3 == 1 ? OpenAiRoute::kCompletions
                                           : OpenAiRoute::kOther;
  const auto parsed = parser.parse(route, input);
  const auto* request = std::get_if<OpenAiRequest>(&parsed);
  if (request == nullptr) {
    const auto& error = std::get<OpenAiError>(parsed);
    CHECK(error.status >= 400 && error.status < 500 && !error.message.empty());
    return 0;
  }
  const auto read_by_others = nlohmann::json::parse(input, nullptr, false);
  CHECK(read_by_others.is_object());
  CHECK(apply_edits(*request, input, {}) == input);
  if (route == OpenAiRoute::kOther || !request->model_span) {
    return 0;
  }
  RequestEdits edits{.model = "the-model", .max_tokens = how, .include_usage = how % 2 == 0};
  if (how % 5 == 0) {
    edits.priority = how;
  }
  if (route == OpenAiRoute::kChat && request->messages.size() > 1) {
    edits.dropped_messages = {how % request->messages.size()};
  }
  const std::string body = apply_edits(*request, input, edits);
  const auto again = parser.parse(route, body);
  const auto* edited = std::get_if<OpenAiRequest>(&again);
  CHECK(edited != nullptr);
  CHECK(edited->model == "the-model" && edited->max_tokens == how);
  CHECK(!edits.include_usage || edited->caller_asked_usage);
  CHECK(edited->stream == request->stream);
  CHECK(edited->messages.size() == request->messages.size() - edits.dropped_messages.size());
  auto changed = nlohmann::json::parse(body, nullptr, false);
  CHECK(changed.is_object());
  auto before = read_by_others;
  for (const char* key :
       {"model", "max_tokens", "max_completion_tokens", "stream_options", "priority", "messages"}) {
    changed.erase(key);
    before.erase(key);
  }
  CHECK(changed == before);
  return 0;
}
