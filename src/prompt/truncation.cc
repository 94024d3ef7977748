#include "prompt/truncation.h"

#include <algorithm>

namespace spillway {
namespace {

constexpr std::size_t kRoundsKept = 2;

bool is_pinned(const MessageShape& message) {
  return message.role == "system" || message.role == "developer";
}

}  // namespace

std::vector<std::size_t> choose_dropped(const TruncationInput& input) {
  std::int64_t total = 0;
  std::vector<std::size_t> begins;  // where each round begins
  for (std::size_t i = 0; i < input.messages.size(); ++i) {
    total += input.messages[i].tokens;
    if (input.messages[i].role == "user") {
      begins.push_back(i);
    }
  }
  std::vector<std::size_t> dropped;
  if (total <= input.budget || begins.size() <= kRoundsKept) {
    return dropped;
  }
  // What stands before the first user message, an opening of the assistant for instance, goes with
  // round one.
  begins.front() = 0;
  for (std::size_t round = 0; round + kRoundsKept < begins.size() && total > input.budget;
       ++round) {
    for (std::size_t i = begins[round]; i < begins[round + 1]; ++i) {
      if (!is_pinned(input.messages[i])) {
        dropped.push_back(i);
        total -= input.messages[i].tokens;
      }
    }
  }
  return dropped;
}

}  // namespace spillway
