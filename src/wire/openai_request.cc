#include "wire/openai_request.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <simdjson.h>

namespace spillway {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::size_t kDepthMax = 64;
constexpr std::size_t kMessagesMax = 100'000;
constexpr std::size_t kModelNameMax = 512;

// Where in the body something is, spelled out only for an error: "messages[3].content".
struct Place {
  std::string_view root;
  std::size_t index = kNoIndex;
  std::string_view leaf = {};

  static constexpr std::size_t kNoIndex = static_cast<std::size_t>(-1);

  Place at(std::string_view key) const { return {root, index, key}; }
  std::string spelled() const {
    std::string out(root);
    if (index != kNoIndex) {
      out.append("[").append(std::to_string(index)).append("]");
    }
    return leaf.empty() ? out : out.append(".").append(leaf);
  }
};

// Ends the reading; caught in parse(), never leaves this file.
struct Refused {
  OpenAiError error;
};

[[noreturn]] void refuse(std::string message, std::string param, std::string code = "") {
  throw Refused{
      {.message = std::move(message), .param = std::move(param), .code = std::move(code)}};
}

// Notices when one of the keys of a mapping that we know appears twice.
template <std::size_t N>
class KnownKeys {
 public:
  KnownKeys(std::array<std::string_view, N> names, Place where) : names_(names), where_(where) {}

  void see(std::string_view key) {
    for (std::size_t i = 0; i < N; ++i) {
      if (key != names_[i]) {
        continue;
      }
      if (seen_[i]) {
        const std::string where = where_.spelled();
        const std::string path = where.empty() ? std::string(key) : where + "." + std::string(key);
        refuse(fmt::format("The key '{}' appears twice.", path), path, "duplicate_key");
      }
      seen_[i] = true;
    }
  }

 private:
  std::array<std::string_view, N> names_;
  std::array<bool, N> seen_{};
  Place where_;
};

class Reader {
 public:
  Reader(const char* base, OpenAiRequest& out) : base_(base), out_(out) {}

  void read(OpenAiRoute route, ondemand::object object) {
    KnownKeys<9> keys({"model", "messages", "prompt", "stream", "max_tokens",
                       "max_completion_tokens", "stream_options", "priority", "n"},
                      {});
    bool has_messages = false;
    bool has_prompt = false;
    for (auto field : object) {
      const std::string key(std::string_view(field.unescaped_key()));
      keys.see(key);
      ondemand::value value = field.value();
      if (key == "model") {
        out_.model = text(value, {"model"});
        out_.model_span = last_;
      } else if (key == "messages" && route == OpenAiRoute::kChat) {
        has_messages = true;
        read_messages(value);
      } else if (key == "prompt" && route == OpenAiRoute::kCompletions) {
        has_prompt = true;
        read_prompt(value);
      } else if (key == "n" && route != OpenAiRoute::kOther) {
        out_.replies = budget(value, {"n"}).value_or(1);
      } else if (key == "stream") {
        out_.stream = flag(value, {"stream"}).value_or(false);
      } else if (route == OpenAiRoute::kOther) {
        continue;
      } else if (key == "max_tokens") {
        max_tokens_ = budget(value, {"max_tokens"});
        out_.max_tokens_span = last_;
      } else if (key == "max_completion_tokens") {
        max_completion_tokens_ = budget(value, {"max_completion_tokens"});
        out_.max_completion_tokens_span = last_;
      } else if (key == "stream_options") {
        read_stream_options(value);
      } else if (key == "priority") {
        out_.priority_span = span(simdjson::to_json_string(value));
      }
    }
    out_.max_tokens = max_completion_tokens_ ? max_completion_tokens_ : max_tokens_;
    if (!out_.model_span && route != OpenAiRoute::kOther) {
      refuse("The key 'model' is missing.", "model");
    }
    if (out_.model_span && (out_.model.empty() || out_.model.size() > kModelNameMax)) {
      refuse(fmt::format("'model' must be 1 to {} bytes long.", kModelNameMax), "model");
    }
    if (route == OpenAiRoute::kChat && !has_messages) {
      refuse("The key 'messages' is missing.", "messages");
    }
    if (route == OpenAiRoute::kCompletions && !has_prompt) {
      refuse("The key 'prompt' is missing.", "prompt");
    }
  }

 private:
  // The raw text of a value without the blanks behind it.
  Span span(std::string_view raw) const {
    while (!raw.empty() &&
           (raw.back() == ' ' || raw.back() == '\n' || raw.back() == '\r' || raw.back() == '\t')) {
      raw.remove_suffix(1);
    }
    return {static_cast<std::size_t>(raw.data() - base_), raw.size()};
  }

  Span scalar_span(ondemand::value& value) const { return span(value.raw_json_token()); }

  std::string text(ondemand::value value, const Place& place) {
    if (value.type() != ondemand::json_type::string) {
      refuse(fmt::format("'{}' must be a string.", place.spelled()), place.spelled());
    }
    last_ = scalar_span(value);
    return std::string(std::string_view(value.get_string()));
  }

  std::optional<bool> flag(ondemand::value value, const Place& place) {
    last_ = scalar_span(value);
    if (value.type() == ondemand::json_type::null) {
      value.is_null();
      return std::nullopt;
    }
    if (value.type() != ondemand::json_type::boolean) {
      refuse(fmt::format("'{}' must be true or false.", place.spelled()), place.spelled());
    }
    return bool(value.get_bool());
  }

  std::optional<std::int64_t> budget(ondemand::value value, const Place& place) {
    last_ = scalar_span(value);
    if (value.type() == ondemand::json_type::null) {
      value.is_null();
      return std::nullopt;
    }
    std::int64_t number = 0;
    if (value.type() != ondemand::json_type::number ||
        value.get_int64().get(number) != simdjson::SUCCESS || number < 0) {
      refuse(fmt::format("'{}' must be a whole number, 0 or more.", place.spelled()),
             place.spelled());
    }
    return number;
  }

  void read_stream_options(ondemand::value value) {
    if (value.type() == ondemand::json_type::null) {
      out_.stream_options_span = scalar_span(value);
      value.is_null();
      return;
    }
    if (value.type() != ondemand::json_type::object) {
      refuse("'stream_options' must be an object.", "stream_options");
    }
    out_.stream_options_is_object = true;
    out_.stream_options_is_empty = true;
    ondemand::object options = value.get_object();
    out_.stream_options_span = span(options.raw_json());
    options.reset();
    KnownKeys<1> keys({"include_usage"}, {"stream_options"});
    for (auto field : options) {
      out_.stream_options_is_empty = false;
      const std::string key(std::string_view(field.unescaped_key()));
      keys.see(key);
      if (key == "include_usage") {
        out_.caller_asked_usage =
            flag(field.value(), {"stream_options.include_usage"}).value_or(false);
        out_.include_usage_span = last_;
      }
    }
  }

  void read_messages(ondemand::value value) {
    if (value.type() != ondemand::json_type::array) {
      refuse("'messages' must be a list.", "messages");
    }
    ondemand::array list = value.get_array();
    out_.messages_span = span(list.raw_json());
    list.reset();
    for (auto element : list) {
      ondemand::value item = element.value();
      const Place where{"messages", out_.messages.size(), {}};
      if (item.type() != ondemand::json_type::object) {
        refuse(fmt::format("'{}' must be an object.", where.spelled()), where.spelled());
      }
      if (out_.messages.size() >= kMessagesMax) {
        refuse("'messages' holds too many messages.", "messages");
      }
      out_.messages.push_back(read_message(item.get_object(), where));
    }
    if (out_.messages.empty()) {
      refuse("'messages' is empty.", "messages", "empty_array");
    }
  }

  RequestMessage read_message(ondemand::object object, const Place& where) {
    RequestMessage message;
    message.span = span(object.raw_json());
    object.reset();
    KnownKeys<3> keys({"role", "content", "tool_calls"}, where);
    for (auto field : object) {
      const std::string key(std::string_view(field.unescaped_key()));
      keys.see(key);
      if (key == "role") {
        message.role = text(field.value(), where.at("role"));
      } else if (key == "content") {
        read_content(field.value(), where.at("content"), message);
      } else if (key == "tool_calls") {
        message.tool_bytes = std::string_view(simdjson::to_json_string(field.value())).size();
      }
    }
    if (message.role.empty()) {
      const std::string role = where.at("role").spelled();
      refuse(fmt::format("'{}' is missing.", role), role);
    }
    return message;
  }

  void read_content(ondemand::value value, const Place& where, RequestMessage& message) {
    switch (value.type()) {
      case ondemand::json_type::string:
        message.text = text(value, where);
        return;
      case ondemand::json_type::null:
        value.is_null();
        return;
      case ondemand::json_type::array:
        break;
      default:
        refuse(fmt::format("'{}' must be a string or a list of parts.", where.spelled()),
               where.spelled());
    }
    for (auto element : value.get_array()) {
      ondemand::value part = element.value();
      if (part.type() != ondemand::json_type::object) {
        refuse(fmt::format("'{}' must hold objects.", where.spelled()), where.spelled());
      }
      read_part(part.get_object(), where, message);
    }
  }

  void read_part(ondemand::object part, const Place& where, RequestMessage& message) {
    KnownKeys<2> keys({"type", "text"}, where);
    bool has_text = false;
    for (auto field : part) {
      const std::string key(std::string_view(field.unescaped_key()));
      keys.see(key);
      if (key == "text") {
        ondemand::value value = field.value();
        if (value.type() == ondemand::json_type::string) {
          has_text = true;
          message.text +=
              (message.text.empty() ? "" : "\n") + text(value, where.at("content.text"));
        }
      }
    }
    message.other_parts += has_text ? 0 : 1;
  }

  // A string, a list of strings, a list of token ids, or a list of such lists.
  void read_prompt(ondemand::value value) {
    switch (value.type()) {
      case ondemand::json_type::string:
        out_.prompt += text(value, {"prompt"});
        return;
      case ondemand::json_type::number:
        ++out_.prompt_tokens_given;
        return;
      case ondemand::json_type::array:
        if (++prompt_depth_ > 2) {
          refuse("'prompt' is nested too deeply.", "prompt");
        }
        for (auto element : value.get_array()) {
          read_prompt(element.value());
        }
        --prompt_depth_;
        return;
      default:
        refuse("'prompt' must be a string, a list of strings or a list of tokens.", "prompt");
    }
  }

  const char* base_;
  OpenAiRequest& out_;
  Span last_;  // of the scalar read last
  int prompt_depth_ = 0;
  std::optional<std::int64_t> max_tokens_;
  std::optional<std::int64_t> max_completion_tokens_;
};

}  // namespace

struct OpenAiRequestParser::Buffers {
  simdjson::dom::parser whole;
  simdjson::ondemand::parser parts;
  std::string padded;  // the body and what simdjson may read behind it
};

OpenAiRequestParser::OpenAiRequestParser() : buffers_(std::make_unique<Buffers>()) {}
OpenAiRequestParser::~OpenAiRequestParser() = default;

std::variant<OpenAiRequest, OpenAiError> OpenAiRequestParser::parse(OpenAiRoute route,
                                                                    std::string_view body) {
  // The first pass proves that the whole text is JSON; the second reads values with their places.
  std::string& padded = buffers_->padded;
  padded.assign(body).append(simdjson::SIMDJSON_PADDING, '\0');
  const auto json_error = [](const char* why) {
    return OpenAiError{.message = std::string("The body is not valid JSON: ") + why,
                       .code = "invalid_json"};
  };
  // Never smaller than before: simdjson allocates anew for each other size.
  const std::size_t capacity = std::max(body.size(), buffers_->whole.capacity());
  if (buffers_->whole.allocate(capacity, kDepthMax) != simdjson::SUCCESS) {
    return OpenAiError{.status = 413, .message = "The body is too large."};
  }
  simdjson::dom::element root;
  if (const auto error = buffers_->whole.parse(padded.data(), body.size(), false).get(root);
      error != simdjson::SUCCESS) {
    return json_error(simdjson::error_message(error));
  }
  if (!root.is_object()) {
    return OpenAiError{.message = "The body must be a JSON object."};
  }
  OpenAiRequest request;
  try {
    ondemand::document document = buffers_->parts.iterate(
        simdjson::padded_string_view(padded.data(), body.size(), padded.size()));
    ondemand::object object = document.get_object();
    Reader reader(padded.data(), request);
    request.object = {body.find('{'), 0};
    reader.read(route, object);
  } catch (const Refused& refused) {
    return refused.error;
  } catch (const simdjson::simdjson_error& error) {
    return json_error(error.what());
  }
  return request;
}

}  // namespace spillway
