#pragma once
// Requests that may be what kills engines. A request that was live when a replica's connections
// broke gets a strike; with two, the same body is refused for a while, instead of being fed to the
// next replica. Losses at one replica are one strike until it has died for certain. A replica that
// turns out to live on takes its strike back: then a network broke, or the engine gave up one
// request. Bounded: 1,024 requests, oldest out first. Pure; owned by the data-path strand.

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace spillway {

class Quarantine {
 public:
  static constexpr std::size_t kEntriesMax = 1024;
  static constexpr Duration kKeptFor = std::chrono::seconds(60);
  static constexpr std::size_t kStrikes = 2;

  // The connection that this request was running on broke.
  void on_lost(Instant now, std::uint64_t fingerprint, const std::string& replica);
  // A page of the replica's same process arrived: what was lost there before is no crash.
  void on_alive(Instant now, std::string_view replica);
  // The replica has died for certain: it refuses connections or its counters began anew.
  void on_dead(std::string_view replica);
  bool refuses(Instant now, std::uint64_t fingerprint) const;
  std::size_t size() const { return entries_.size(); }

  // `before`: the fingerprint of what stands before it.
  static std::uint64_t fingerprint(std::string_view body, std::uint64_t before = 0);

 private:
  struct Strike {
    std::string replica;
    Instant at;
    bool certain = false;
  };
  struct Entry {
    std::uint64_t fingerprint = 0;
    std::vector<Strike> strikes;
  };

  void forget_old(Instant now);

  std::deque<Entry> entries_;  // by the time of their first strike
};

}  // namespace spillway
