#pragma once
// Which messages to leave out so that a conversation fits a budget: the oldest rounds first. A
// round is a user message and what follows it up to the next one, so a tool call and its results
// live or die together. System and developer messages, the newest user message and the last two
// rounds are kept. Pure; anybody may call it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace spillway {

struct MessageShape {
  std::string role;
  std::int64_t tokens = 0;
};

struct TruncationInput {
  std::span<const MessageShape> messages;
  std::int64_t budget = 0;  // tokens of all messages that may stay
};

// Indexes of the messages to leave out, ascending; empty when everything fits. What must be kept
// may exceed the budget: then all that may go, goes, and the rest is for the engine to judge.
std::vector<std::size_t> choose_dropped(const TruncationInput& input);

}  // namespace spillway
