#include "wire/openai_reply.h"

#include <nlohmann/json.hpp>
#include <simdjson.h>

namespace spillway {
namespace {

namespace dom = simdjson::dom;

bool has_text(dom::object object, const char* key) {
  std::string_view text;
  return object[key].get(text) == simdjson::SUCCESS && !text.empty();
}

bool has_items(dom::object object, const char* key) {
  dom::array items;
  return object[key].get(items) == simdjson::SUCCESS && items.size() > 0;
}

bool has_content(dom::object choice) {
  if (has_text(choice, "text")) {
    return true;
  }
  for (const char* part : {"delta", "message"}) {
    dom::object body;
    if (choice[part].get(body) != simdjson::SUCCESS) {
      continue;
    }
    for (const char* key : {"content", "reasoning", "reasoning_content", "refusal"}) {
      if (has_text(body, key)) {
        return true;
      }
    }
    if (has_items(body, "tool_calls")) {
      return true;
    }
  }
  return false;
}

void read_error(dom::object root, ReplyFacts& facts) {
  dom::object error;
  std::string_view text;
  if (root["error"].get(error) == simdjson::SUCCESS) {
    facts.is_error = true;
  } else if (root["error"].get(text) == simdjson::SUCCESS) {
    facts.is_error = true;
    facts.error_message = text;
    return;
  } else if (root["object"].get(text) == simdjson::SUCCESS && text == "error") {
    facts.is_error = true;
    error = root;
  } else {
    return;
  }
  if (error["message"].get(text) == simdjson::SUCCESS) {
    facts.error_message = text;
  }
  std::int64_t code = 0;
  if (error["code"].get(code) == simdjson::SUCCESS && code >= 400 && code <= 599) {
    facts.error_code = static_cast<int>(code);
  }
}

// A whole number of tokens that a reply can have. An engine's overflow or negative count is
// unknown, not a number: it would bend what is learned from it.
std::optional<std::int64_t> token_count(dom::object usage, const char* key) {
  constexpr std::int64_t kMost = 1'000'000'000;
  std::int64_t count = 0;
  if (usage[key].get(count) != simdjson::SUCCESS || count < 0 || count > kMost) {
    return std::nullopt;
  }
  return count;
}

void read_usage(dom::object root, ReplyFacts& facts) {
  dom::object usage;
  if (root["usage"].get(usage) != simdjson::SUCCESS) {
    return;
  }
  const auto prompt = token_count(usage, "prompt_tokens");
  const auto completion = token_count(usage, "completion_tokens");
  // Embeddings have no completion_tokens; a count that is there and no count makes all of it
  // doubtful.
  const bool none = usage["completion_tokens"].error() == simdjson::NO_SUCH_FIELD &&
                    token_count(usage, "total_tokens");
  if (prompt && (completion || none)) {
    facts.usage = Usage{.prompt_tokens = *prompt, .completion_tokens = completion.value_or(0)};
  }
}

}  // namespace

namespace {

using Json = nlohmann::ordered_json;

// The chunk's own fields without what it says.
std::optional<Json> chunk_frame(std::string_view like) {
  Json chunk = Json::parse(like, nullptr, false);
  if (!chunk.is_object()) {
    return std::nullopt;
  }
  chunk["choices"] = Json::array();
  chunk.erase("usage");
  return chunk;
}

}  // namespace

std::string length_chunk(std::string_view like, std::int64_t choices) {
  auto chunk = chunk_frame(like);
  if (!chunk) {
    return {};
  }
  const bool chat = (*chunk)["object"] != "text_completion";
  for (std::int64_t i = 0; i < choices; ++i) {
    Json choice{{"index", i}};
    if (chat) {
      choice["delta"] = Json::object();
    } else {
      choice["text"] = "";
    }
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = "length";
    (*chunk)["choices"].push_back(std::move(choice));
  }
  return chunk->dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string usage_chunk_like(std::string_view like, const Usage& usage) {
  auto chunk = chunk_frame(like);
  if (!chunk) {
    return {};
  }
  (*chunk)["usage"] = {{"prompt_tokens", usage.prompt_tokens},
                       {"completion_tokens", usage.completion_tokens},
                       {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
  return chunk->dump(-1, ' ', false, Json::error_handler_t::replace);
}

struct ReplyReader::Buffers {
  dom::parser parser;
};

ReplyReader::ReplyReader() : buffers_(std::make_unique<Buffers>()) {}
ReplyReader::~ReplyReader() = default;

ReplyFacts ReplyReader::read(std::string_view json) {
  ReplyFacts facts;
  if (json.empty()) {
    return facts;  // an event may have an empty data line; simdjson wants a pointer
  }
  dom::object root;
  if (buffers_->parser.parse(json.data(), json.size()).get(root) != simdjson::SUCCESS) {
    return facts;
  }
  facts.is_json = true;
  read_error(root, facts);
  read_usage(root, facts);
  dom::array choices;
  std::size_t count = 0;
  const bool has_list = root["choices"].get(choices) == simdjson::SUCCESS;
  if (has_list) {
    for (const dom::element element : choices) {
      ++count;
      dom::object choice;
      if (element.get(choice) != simdjson::SUCCESS) {
        continue;
      }
      facts.has_content = facts.has_content || has_content(choice);
      std::string_view reason;
      if (choice["finish_reason"].get(reason) == simdjson::SUCCESS) {
        facts.finish_reason = reason;
      }
    }
  }
  facts.has_choices = count > 0;
  const bool is_usage = facts.usage || (has_list && root["usage"].is_object());
  facts.usage_only = is_usage && count == 0 && !facts.is_error;
  return facts;
}

}  // namespace spillway
