#pragma once
// All pools of a gateway, found by model name. Decision state is keyed by pool name and survives a
// reload. Owned by the data-path strand.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "decision/pool.h"

namespace spillway {

class Pools {
 public:
  explicit Pools(std::uint64_t seed) : seed_(seed) {}

  // Takes a configuration: new pools are made, known ones reconfigured. A pool that is gone is
  // kept, unnamed, until its last request has ended.
  void apply(const Config& config, const std::shared_ptr<const Policy>& policy);

  // The pool that serves this model name; null when there is none.
  Pool* serving(std::string_view model);
  // The pool of this name, also one that is being retired; null when there is none.
  Pool* named(std::string_view name);

  // Has every pool at least one replica that can be reached?
  bool all_serving(Instant now) const;

  // Forgets retired pools whose requests have all ended.
  void sweep();

  auto begin() { return pools_.begin(); }
  auto end() { return pools_.end(); }

 private:
  struct Entry {
    std::unique_ptr<Pool> pool;
    bool retired = false;
  };

  std::uint64_t seed_;
  std::map<std::string, Entry, std::less<>> pools_;
  std::map<std::string, Pool*, std::less<>> by_model_;
};

}  // namespace spillway
