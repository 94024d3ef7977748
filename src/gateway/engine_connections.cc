#include "gateway/engine_connections.h"

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
  stream->cancel();
  return stream;
}

void EngineConnections::give_back(const std::string& replica, std::unique_ptr<TcpStream> stream) {
  std::list<Idle>& list = idle_[replica];
  if (list.size() >= kIdleMax) {
    stream->close();
    return;
  }
  list.push_back({std::move(stream), monotonic_now(), ++numbers_});
  // Anything readable on an idle connection is its end, or bytes that nobody asked for.
  list.back().stream->when_readable([this, replica, number = numbers_] {
    std::erase_if(idle_[replica], [number](const Idle& idle) {
      if (idle.number == number) {
        idle.stream->close();
      }
      return idle.number == number;
    });
  });
  if (!std::exchange(timer_runs_, true)) {
    close_old();
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
