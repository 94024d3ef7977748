#pragma once
// One message of a conversation as the model sees it. A plain value; anybody may use it.

#include <string>

namespace spillway {

struct Message {
  std::string role;     // "system", "user", "assistant", "tool" ...
  std::string content;  // UTF-8
};

}  // namespace spillway
