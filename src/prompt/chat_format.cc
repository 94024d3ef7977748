#include "prompt/chat_format.h"

#include <utility>

namespace spillway {
namespace {

constexpr std::string_view kTurnBegin = "<|im_start|>";
constexpr std::string_view kTurnEnd = "<|im_end|>";
constexpr std::string_view kHeaderBegin = "<|start_header_id|>";
constexpr std::string_view kHeaderEnd = "<|end_header_id|>";

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Undoes the escapes of a Jinja string literal that occur in system messages.
std::string unescaped(std::string_view literal) {
  std::string text;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      text.push_back(literal[i]);
      continue;
    }
    const char next = literal[++i];
    text.push_back(next == 'n' ? '\n' : next == 't' ? '\t' : next);
  }
  return text;
}

// The system message that a ChatML template writes for conversations without one: the string
// literal '<|im_start|>system\n...<|im_end|>\n'. Empty where there is none.
std::string default_system_of(std::string_view jinja) {
  for (const std::string_view opening : {"<|im_start|>system\\n", "<|im_start|>system\n"}) {
    for (std::size_t at = jinja.find(opening); at != std::string_view::npos;
         at = jinja.find(opening, at + 1)) {
      if (at == 0) {
        continue;
      }
      const char quote = jinja[at - 1];
      const std::size_t begin = at + opening.size();
      const std::size_t end = jinja.find(kTurnEnd, begin);
      const std::string_view literal = jinja.substr(begin, end - begin);
      // Another quote in between: the literal stops, and an expression writes the message.
      if (end != std::string_view::npos && !literal.empty() && !has(literal, {&quote, 1})) {
        return unescaped(literal);
      }
    }
  }
  return {};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

void append_chatml(std::vector<Segment>& out, std::string_view role, std::string_view content) {
  out.push_back({.text = std::string(kTurnBegin), .special = true});
  out.push_back({.text = std::string(role) + "\n" + std::string(content)});
  out.push_back({.text = std::string(kTurnEnd), .special = true});
  out.push_back({.text = "\n"});
}

void append_llama3_header(std::vector<Segment>& out, std::string_view role) {
  out.push_back({.text = std::string(kHeaderBegin), .special = true});
  out.push_back({.text = std::string(role)});
  out.push_back({.text = std::string(kHeaderEnd), .special = true});
}

}  // namespace

ChatFormat::ChatFormat(Family family, std::string default_system)
    : family_(family), default_system_(std::move(default_system)) {}

ChatFormat ChatFormat::chatml() {
  return {Family::kChatMl, {}};
}

Result<ChatFormat> ChatFormat::named(std::string_view family) {
  if (family == "chatml") {
    return chatml();
  }
  if (family == "llama-3") {
    return ChatFormat(Family::kLlama3, {});
  }
  return Error{.message = "chat format \"" + std::string(family) +
                          "\" is unknown; give chatml or llama-3"};
}

Result<ChatFormat> ChatFormat::from_template(std::string_view jinja_template) {
  if (has(jinja_template, kTurnBegin) && has(jinja_template, kTurnEnd)) {
    return ChatFormat(Family::kChatMl, default_system_of(jinja_template));
  }
  // Llama 3.1 and later write a date into the system message; that is another format.
  if (has(jinja_template, kHeaderBegin) && has(jinja_template, kHeaderEnd) &&
      !has(jinja_template, "Cutting Knowledge Date")) {
    return ChatFormat(Family::kLlama3, {});
  }
  return Error{.message =
                   "tokenizer.chat_template is of no known family; set --chat-format chatml or "
                   "llama-3 to say how conversations are written for this model"};
}

std::vector<Segment> ChatFormat::render(std::span<const Message> messages) const {
  std::vector<Segment> out;
  if (family_ == Family::kLlama3) {
    out.push_back({.text = "<|begin_of_text|>", .special = true});
    for (const Message& message : messages) {
      append_llama3_header(out, message.role);
      out.push_back({.text = "\n\n" + std::string(trimmed(message.content))});
      out.push_back({.text = "<|eot_id|>", .special = true});
    }
    append_llama3_header(out, "assistant");
    out.push_back({.text = "\n\n"});
    return out;
  }
  if (!default_system_.empty() && !messages.empty() && messages.front().role != "system") {
    append_chatml(out, "system", default_system_);
  }
  for (const Message& message : messages) {
    append_chatml(out, message.role, message.content);
  }
  out.push_back({.text = std::string(kTurnBegin), .special = true});
  out.push_back({.text = "assistant\n"});
  return out;
}

}  // namespace spillway
