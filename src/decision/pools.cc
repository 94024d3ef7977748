#include "decision/pools.h"

#include <algorithm>

namespace spillway {

void Pools::apply(const Config& config, const std::shared_ptr<const Policy>& policy) {
  by_model_.clear();
  for (auto& [name, entry] : pools_) {
    entry.retired = true;
  }
  for (const PoolConfig& wanted : config.pools) {
    Entry& entry = pools_[wanted.name];
    entry.retired = false;
    if (entry.pool) {
      entry.pool->reconfigure(wanted, policy);
    } else {
      entry.pool = std::make_unique<Pool>(wanted, policy, seed_++);
    }
    for (const std::string& model : wanted.models) {
      by_model_[model] = entry.pool.get();
    }
  }
  sweep();
}

Pool* Pools::serving(std::string_view model) {
  const auto it = by_model_.find(model);
  return it == by_model_.end() ? nullptr : it->second;
}

Pool* Pools::named(std::string_view name) {
  const auto it = pools_.find(name);
  return it == pools_.end() ? nullptr : it->second.pool.get();
}

bool Pools::all_serving(Instant now) const {
  return std::ranges::all_of(pools_, [&](const auto& item) {
    return item.second.retired || item.second.pool->serving(now);
  });
}

void Pools::sweep() {
  std::erase_if(pools_, [](const auto& item) {
    return item.second.retired && item.second.pool->in_flight() == 0;
  });
}

}  // namespace spillway
