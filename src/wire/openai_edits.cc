#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "wire/openai_request.h"

namespace spillway {
namespace {

struct Splice {
  Span span;         // what goes
  std::string text;  // what comes instead
};

// Keys that were absent go in front of the first one, so that the order of the others stays.
void insert_key(std::vector<Splice>& splices, const OpenAiRequest& request,
                const std::string& key_and_value) {
  splices.push_back({{request.object.offset + 1, 0}, key_and_value + ","});
}

void budget(std::vector<Splice>& splices, const OpenAiRequest& request, std::int64_t max_tokens) {
  const std::string number = std::to_string(max_tokens);
  if (request.max_tokens_span) {
    splices.push_back({*request.max_tokens_span, number});
  }
  if (request.max_completion_tokens_span) {
    splices.push_back({*request.max_completion_tokens_span, number});
  }
  if (!request.max_tokens_span && !request.max_completion_tokens_span) {
    insert_key(splices, request, "\"max_tokens\":" + number);
  }
}

void include_usage(std::vector<Splice>& splices, const OpenAiRequest& request) {
  if (!request.stream_options_span) {
    insert_key(splices, request, R"("stream_options":{"include_usage":true})");
  } else if (!request.stream_options_is_object) {
    splices.push_back({*request.stream_options_span, R"({"include_usage":true})"});
  } else if (request.include_usage_span) {
    splices.push_back({*request.include_usage_span, "true"});
  } else {
    splices.push_back(
        {{request.stream_options_span->offset + 1, 0},
         request.stream_options_is_empty ? R"("include_usage":true)" : R"("include_usage":true,)"});
  }
}

void drop_messages(std::vector<Splice>& splices, const OpenAiRequest& request,
                   std::string_view body, const std::vector<std::size_t>& dropped) {
  std::string kept = "[";
  for (std::size_t i = 0; i < request.messages.size(); ++i) {
    if (std::ranges::binary_search(dropped, i)) {
      continue;
    }
    const Span& span = request.messages[i].span;
    kept.append(kept.size() > 1 ? "," : "").append(body.substr(span.offset, span.size));
  }
  splices.push_back({*request.messages_span, kept + "]"});
}

}  // namespace

std::string apply_edits(const OpenAiRequest& request, std::string_view body,
                        const RequestEdits& edits) {
  std::vector<Splice> splices;
  if (edits.model) {
    splices.push_back({*request.model_span, json_string(*edits.model)});
  }
  if (edits.max_tokens) {
    budget(splices, request, *edits.max_tokens);
  }
  if (edits.include_usage && !request.caller_asked_usage) {
    include_usage(splices, request);
  }
  if (edits.priority) {
    const std::string number = std::to_string(*edits.priority);
    if (request.priority_span) {
      splices.push_back({*request.priority_span, number});
    } else {
      insert_key(splices, request, "\"priority\":" + number);
    }
  }
  if (!edits.dropped_messages.empty() && request.messages_span) {
    drop_messages(splices, request, body, edits.dropped_messages);
  }
  // Insertions at one place may come in any order; a JSON object has none.
  std::ranges::sort(splices, {}, [](const Splice& s) { return s.span.offset; });
  std::string out;
  out.reserve(body.size() + 128);
  std::size_t at = 0;
  for (const Splice& splice : splices) {
    out.append(body.substr(at, splice.span.offset - at)).append(splice.text);
    at = splice.span.offset + splice.span.size;
  }
  out.append(body.substr(at));
  return out;
}

}  // namespace spillway
