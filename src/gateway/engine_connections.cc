#include "gateway/engine_connections.h"

#include <algorithm>
#include <utility>

#include "net/clock.h"

namespace spillway {
namespace {

constexpr std::size_t kIdleMax = 64;
constexpr Duration kIdleFor = std::chrono::seconds(4);

}  // namespace

std::unique_ptr<TcpStream> EngineConnections::take(const std::string& replica) {
  const auto it = idle_.find(replica);
  if (it == idle_.end() || it->second.empty()) {
    return nullptr;
  }
  auto stream = std::move(it->second.back().stream);
  it->second.pop_back();
  stream->forget();
  return stream;
}

void EngineConnections::give_back(const std::string& replica, std::unique_ptr<TcpStream> stream) {
  std::vector<Idle>& idle = idle_[replica];
  if (idle.size() >= kIdleMax) {
    stream->close();
    return;
  }
  idle.push_back({std::move(stream), monotonic_now(), ++numbers_});
  watch(idle.back());
  if (!std::exchange(timer_runs_, true)) {
    close_old();
  }
}

// The number finds it again: a callback of two words costs no allocation, and rarely runs.
void EngineConnections::watch(Idle& idle) {
  idle.stream->when_readable([this, number = idle.number] { on_readable(number); });
}

// Anything readable on an idle connection is its end, or bytes that nobody asked for.
void EngineConnections::on_readable(std::uint64_t number) {
  for (auto& [replica, idle] : idle_) {
    const auto it = std::ranges::find(idle, number, &Idle::number);
    if (it == idle.end()) {
      continue;
    }
    char byte = 0;
    if (it->stream->receive({&byte, 1}).state == TcpStream::State::kWouldBlock) {
      watch(*it);
      return;
    }
    it->stream->close();
    idle.erase(it);
    return;
  }
}

void EngineConnections::close_old() {
  const Instant now = monotonic_now();
  bool any = false;
  for (auto& [replica, list] : idle_) {
    std::erase_if(list, [&](const Idle& idle) {
      if (now - idle.since >= kIdleFor) {
        idle.stream->close();
        return true;
      }
      return false;
    });
    any = any || !list.empty();
  }
  if (!any) {
    timer_runs_ = false;
    return;
  }
  timer_.after(std::chrono::milliseconds(500), [this] { close_old(); });
}

}  // namespace spillway
