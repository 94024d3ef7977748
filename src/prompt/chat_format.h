#pragma once
// How a conversation is written down for a model. The Jinja template that a model file carries is
// not executed: its family is recognised and written by code, so that a template from a foreign
// file cannot run anything and role markers stay apart from callers' text. Immutable; any thread.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "prompt/message.h"
#include "prompt/segment.h"

namespace spillway {

class ChatFormat {
 public:
  // Recognises ChatML (SmolLM2, Qwen 2 and 2.5, with their default system messages) and Llama 3.
  // Fails for any other template, naming the families that named() takes.
  static Result<ChatFormat> from_template(std::string_view jinja_template);

  // "chatml" or "llama-3": what an operator sets when the file's template is missing or unknown.
  static Result<ChatFormat> named(std::string_view family);

  // ChatML without a default system message.
  static ChatFormat chatml();

  // Ends with the opening of the assistant's turn. REQUIRES: messages is not empty.
  std::vector<Segment> render(std::span<const Message> messages) const;

 private:
  enum class Family { kChatMl, kLlama3 };
  ChatFormat(Family family, std::string default_system);

  Family family_;
  std::string default_system_;  // opens conversations that bring no system message; may be empty
};

}  // namespace spillway
