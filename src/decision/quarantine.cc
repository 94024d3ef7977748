#include "decision/quarantine.h"

#include <algorithm>
#include <cstring>

namespace spillway {
namespace {

// A page that was asked for before the loss may arrive after it.
constexpr Duration kPageDelay = std::chrono::milliseconds(300);

}  // namespace

std::uint64_t Quarantine::fingerprint(std::string_view body, std::uint64_t before) {
  // FNV-1a's shape over eight bytes at a time, with a last mix: names, not security.
  std::uint64_t hash = 0xcbf29ce484222325ULL ^ body.size() ^ before;
  while (!body.empty()) {
    std::uint64_t word = 0;
    const std::size_t size = std::min(body.size(), sizeof(word));
    std::memcpy(&word, body.data(), size);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29U;
    body.remove_prefix(size);
  }
  return hash;
}

void Quarantine::forget_old(Instant now) {
  while (!entries_.empty() && (entries_.size() > kEntriesMax || entries_.front().strikes.empty() ||
                               now - entries_.front().strikes.back().at > kKeptFor)) {
    entries_.pop_front();
  }
}

void Quarantine::on_lost(Instant now, std::uint64_t fingerprint, const std::string& replica) {
  const auto it = std::ranges::find(entries_, fingerprint, &Entry::fingerprint);
  Entry entry{.fingerprint = fingerprint};
  if (it != entries_.end()) {
    entry = std::move(*it);
    entries_.erase(it);
  }
  std::erase_if(entry.strikes, [&](const Strike& s) { return now - s.at > kKeptFor; });
  const auto open = std::ranges::find_if(
      entry.strikes, [&](const Strike& s) { return s.replica == replica && !s.certain; });
  if (open != entry.strikes.end()) {
    open->at = now;
  } else {
    entry.strikes.push_back({replica, now});
  }
  entries_.push_back(std::move(entry));
  forget_old(now);
}

void Quarantine::on_alive(Instant now, std::string_view replica) {
  for (Entry& entry : entries_) {
    std::erase_if(entry.strikes, [&](const Strike& s) {
      return s.replica == replica && !s.certain && now - s.at > kPageDelay;
    });
  }
  std::erase_if(entries_, [](const Entry& entry) { return entry.strikes.empty(); });
}

void Quarantine::on_dead(std::string_view replica) {
  for (Entry& entry : entries_) {
    for (Strike& strike : entry.strikes) {
      strike.certain = strike.certain || strike.replica == replica;
    }
  }
}

bool Quarantine::refuses(Instant now, std::uint64_t fingerprint) const {
  const auto it = std::ranges::find(entries_, fingerprint, &Entry::fingerprint);
  return it != entries_.end() && std::ranges::count_if(it->strikes, [&](const Strike& s) {
                                   return now - s.at <= kKeptFor;
                                 }) >= static_cast<std::ptrdiff_t>(kStrikes);
}

}  // namespace spillway
