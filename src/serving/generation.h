#pragma once
// What a caller wants generated, out of the body of an OpenAI request. Pure; anybody may use it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "prompt/message.h"
#include "prompt/token.h"
#include "wire/openai_error.h"
#include "wire/openai_request.h"

namespace spillway {

struct GenerationRequest {
  bool chat = true;
  std::string model;
  std::vector<Message> messages;       // chat
  std::string prompt;                  // completions
  std::vector<TokenId> prompt_tokens;  // completions by token ids
  std::optional<std::int64_t> max_tokens;
  double temperature = 1;
  double top_p = 1;
  int top_k = 0;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stop;  // at most 16
  int priority = 0;
  bool ignore_eos = false;
  bool stream = false;
  bool include_usage = false;
  std::optional<std::int64_t> sim_output_tokens;  // the simulated engine's reply length
};

std::variant<GenerationRequest, OpenAiError> parse_generation(OpenAiRoute route,
                                                              std::string_view body,
                                                              OpenAiRequestParser& parser);

}  // namespace spillway
