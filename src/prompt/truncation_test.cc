#include "prompt/truncation.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace spillway {
namespace {

// "s10 u5 a20": a letter for the role and the tokens.
std::vector<MessageShape> talk(std::string_view text) {
  std::vector<MessageShape> messages;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const char role = text[0];
    messages.push_back({role == 's'   ? "system"
                        : role == 'u' ? "user"
                        : role == 't' ? "tool"
                                      : "assistant",
                        std::stoll(std::string(text.substr(1, end - 1)))});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return messages;
}

using Indexes = std::vector<std::size_t>;

TEST(ChooseDropped, TakesTheOldestRoundsFirst) {
  struct Case {
    const char* name;
    const char* talk;
    std::int64_t budget;
    Indexes dropped;
  };
  for (const Case& c : std::vector<Case>{
           {"fits", "s10 u10 a10 u10", 40, {}},
           {"one round", "s10 u10 a10 u10 a10 u10 a10 u10", 60, {1, 2}},
           {"two rounds", "s10 u10 a10 u10 a10 u10 a10 u10", 40, {1, 2, 3, 4}},
           {"never the last two", "s10 u10 a10 u10 a10 u10", 5, {1, 2}},
           {"two rounds are all", "s10 u50 a50 u50", 20, {}},
           {"tools go with their call", "u10 a10 t50 a10 u10 a10 u10", 40, {0, 1, 2, 3}},
           {"a late system prompt stays", "u10 a10 s10 u10 a10 u10", 40, {0, 1}},
           {"an opening of the assistant", "s10 a10 u10 a10 u10 a10 u10", 40, {1, 2, 3}},
           {"nothing", "", 0, {}},
       }) {
    SCOPED_TRACE(c.name);
    const auto messages = talk(c.talk);

    EXPECT_EQ(choose_dropped({.messages = messages, .budget = c.budget}), c.dropped);
  }
}

TEST(ChooseDropped, KeepsWhatMustBeKeptInAnyConversation) {
  Rng rng(11);
  for (int round = 0; round < 5000; ++round) {
    std::vector<MessageShape> messages;
    for (std::uint64_t n = rng.below(20); n > 0; --n) {
      static constexpr const char* kRoles[] = {"system", "user", "assistant", "tool", "developer"};
      messages.push_back({kRoles[rng.below(5)], static_cast<std::int64_t>(rng.below(200))});
    }
    const auto budget = static_cast<std::int64_t>(rng.below(1500));

    const Indexes dropped = choose_dropped({.messages = messages, .budget = budget});

    ASSERT_TRUE(std::ranges::is_sorted(dropped));
    std::int64_t total = 0;
    for (const MessageShape& m : messages) {
      total += m.tokens;
    }
    std::size_t users_after = 0;
    for (std::size_t i = messages.size(); i-- > 0;) {
      const bool gone = std::ranges::binary_search(dropped, i);
      if (messages[i].role == "system" || messages[i].role == "developer" || users_after < 2) {
        ASSERT_FALSE(gone) << "message " << i;
      }
      users_after += messages[i].role == "user" ? 1 : 0;
    }
    if (total <= budget) {
      ASSERT_TRUE(dropped.empty());
    }
  }
}

TEST(ChooseDropped, DropsWholeRoundsFromTheOldestAndNoneTooMany) {
  Rng rng(12);
  for (int round = 0; round < 5000; ++round) {
    std::vector<MessageShape> messages;
    for (std::uint64_t n = rng.below(25); n > 0; --n) {
      static constexpr const char* kRoles[] = {"user", "assistant", "tool", "system"};
      messages.push_back({kRoles[rng.below(4)], static_cast<std::int64_t>(1 + rng.below(200))});
    }
    const auto budget = static_cast<std::int64_t>(rng.below(2000));

    const Indexes dropped = choose_dropped({.messages = messages, .budget = budget});

    if (dropped.empty()) {
      continue;
    }
    std::int64_t left = 0;
    std::int64_t last_round = 0;  // of what was dropped
    std::size_t last_begin = 0;
    int users = 0;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const bool gone = std::ranges::binary_search(dropped, i);
      if (i <= dropped.back()) {
        ASSERT_TRUE(gone || messages[i].role == "system") << "a hole at message " << i;
        // What stands before the first user message belongs to the first round.
        last_begin = messages[i].role == "user" && ++users > 1 ? i : last_begin;
      } else if (messages[i].role != "system") {
        ASSERT_TRUE(messages[i].role == "user" || i != dropped.back() + 1) << "half a round";
      }
      left += gone ? 0 : messages[i].tokens;
    }
    for (const std::size_t i : dropped) {
      last_round += i >= last_begin ? messages[i].tokens : 0;
    }
    ASSERT_GT(left + last_round, budget) << "the last round could have stayed";
  }
}

}  // namespace
}  // namespace spillway
