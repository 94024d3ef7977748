#pragma once
// Requests of the OpenAI API, read in place: what the gateway decides by, and where each of it lies
// in the body, so that an edit is a splice and every byte we do not understand passes unchanged. A
// key that we read or write and that appears twice is an error: readers differ on which one counts,
// which would be a way around a budget.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "wire/openai_error.h"

namespace spillway {

// kOther: embeddings, responses, rerank and their like: only model and stream are read.
enum class OpenAiRoute { kChat, kCompletions, kOther };

// A part of the body.
struct Span {
  std::size_t offset = 0;
  std::size_t size = 0;
};

struct RequestMessage {
  std::string role;
  std::string text;            // of its content; text parts are joined by a line end
  int other_parts = 0;         // images, audio
  std::size_t tool_bytes = 0;  // of tool_calls
  Span span;                   // the element in the body
};

struct OpenAiRequest {
  std::string model;
  bool stream = false;
  std::int64_t replies = 1;  // `n`
  bool caller_asked_usage = false;
  std::optional<std::int64_t>
      max_tokens;  // the one that counts: max_completion_tokens before max_tokens
  std::vector<RequestMessage> messages;  // chat
  std::string prompt;                    // completions: the text, all prompts of a list together
  std::size_t prompt_tokens_given = 0;   // completions: tokens of prompts given as token ids

  // Where the values lie; nothing where the key is absent.
  Span object;  // the whole document
  std::optional<Span> model_span, messages_span, max_tokens_span, max_completion_tokens_span,
      stream_options_span, include_usage_span, priority_span;
  bool stream_options_is_object = false;
  bool stream_options_is_empty = false;
};

// What is to be changed. Nothing and empty mean: leave it alone.
struct RequestEdits {
  std::optional<std::string> model;
  std::optional<std::int64_t>
      max_tokens;  // written into whichever keys are there, else as max_tokens
  std::vector<std::size_t> dropped_messages;  // ascending
  bool include_usage = false;
  std::optional<int> priority;
};

// Reusable: it keeps its buffers. Owned by one strand.
class OpenAiRequestParser {
 public:
  OpenAiRequestParser();
  ~OpenAiRequestParser();
  OpenAiRequestParser(const OpenAiRequestParser&) = delete;
  OpenAiRequestParser& operator=(const OpenAiRequestParser&) = delete;

  std::variant<OpenAiRequest, OpenAiError> parse(OpenAiRoute route, std::string_view body);

 private:
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

// The body with the edits spliced in. REQUIRES: `request` was parsed from `body`.
std::string apply_edits(const OpenAiRequest& request, std::string_view body,
                        const RequestEdits& edits);

}  // namespace spillway
