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
  std::list<Idle>& list = idle_[replica];
  if (list.size() >= kIdleMax) {
    stream->close();
    return;
  }
  list.push_back({std::move(stream), monotonic_now(), ++numbers_});
  watch(replica, list.back());
  if (!std::exchange(timer_runs_, true)) {
    close_old();
  }
}

// Anything readable on an idle connection is its end, or bytes that nobody asked for.
void EngineConnections::watch(const std::string& replica, Idle& idle) {
  idle.stream->when_readable([this, replica, number = idle.number] {
    std::list<Idle>& list = idle_[replica];
    const auto it = std::ranges::find(list, number, &Idle::number);
    if (it == list.end()) {
      return;
    }
    char byte = 0;
    if (it->stream->receive({&byte, 1}).state == TcpStream::State::kWouldBlock) {
      watch(replica, *it);
      return;
    }
    it->stream->close();
    list.erase(it);
  });
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
