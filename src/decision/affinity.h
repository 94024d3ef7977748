#pragma once
// Which replica has served a conversation's beginning, and so probably still holds its KV. Bounded:
// the oldest of 10,000 conversations is forgotten. Pure; owned by the data-path strand.

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <utility>

namespace spillway {

class Affinity {
 public:
  static constexpr std::size_t kEntriesMax = 10'000;

  // Where the conversation was served last; null when that is not known.
  const std::string* replica_of(std::uint64_t conversation) const {
    const auto it = by_key_.find(conversation);
    return it == by_key_.end() ? nullptr : &it->second->second;
  }

  void remember(std::uint64_t conversation, const std::string& replica) {
    if (const auto it = by_key_.find(conversation); it != by_key_.end()) {
      it->second->second = replica;
      order_.splice(order_.begin(), order_, it->second);
      return;
    }
    order_.emplace_front(conversation, replica);
    by_key_.emplace(conversation, order_.begin());
    if (order_.size() > kEntriesMax) {
      by_key_.erase(order_.back().first);
      order_.pop_back();
    }
  }

  std::size_t size() const { return order_.size(); }

 private:
  using Order = std::list<std::pair<std::uint64_t, std::string>>;

  Order order_;  // used last comes first
  std::unordered_map<std::uint64_t, Order::iterator> by_key_;
};

}  // namespace spillway
