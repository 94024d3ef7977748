#include "wire/openai_reply.h"

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

void read_usage(dom::object root, ReplyFacts& facts) {
  dom::object usage;
  if (root["usage"].get(usage) != simdjson::SUCCESS) {
    return;
  }
  Usage counted;
  if (usage["prompt_tokens"].get(counted.prompt_tokens) != simdjson::SUCCESS ||
      usage["completion_tokens"].get(counted.completion_tokens) != simdjson::SUCCESS) {
    return;
  }
  facts.usage = counted;
}

}  // namespace

struct ReplyReader::Buffers {
  dom::parser parser;
};

ReplyReader::ReplyReader() : buffers_(std::make_unique<Buffers>()) {}
ReplyReader::~ReplyReader() = default;

ReplyFacts ReplyReader::read(std::string_view json) {
  ReplyFacts facts;
  dom::object root;
  if (buffers_->parser.parse(json.data(), json.size()).get(root) != simdjson::SUCCESS) {
    return facts;
  }
  facts.is_json = true;
  read_error(root, facts);
  read_usage(root, facts);
  dom::array choices;
  std::size_t count = 0;
  if (root["choices"].get(choices) == simdjson::SUCCESS) {
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
  facts.usage_only = facts.usage.has_value() && count == 0 && !facts.is_error;
  return facts;
}

}  // namespace spillway
