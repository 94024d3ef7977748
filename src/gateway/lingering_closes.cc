#include "gateway/lingering_closes.h"

#include <iterator>
#include <utility>

#include "net/clock.h"

namespace spillway {
namespace {

constexpr std::size_t kMost = 1000;
constexpr Duration kFor = std::chrono::seconds(2);

}  // namespace

void LingeringCloses::add(std::unique_ptr<TcpStream> stream) {
  if (streams_.size() >= kMost) {
    stream->close();
    return;
  }
  stream->forget();
  stream->finish_sending();
  streams_.push_back({std::move(stream), monotonic_now() + kFor});
  drop_input(std::prev(streams_.end()));
  if (!std::exchange(timer_runs_, true)) {
    close_old();
  }
}

void LingeringCloses::drop_input(Place place) {
  if (place->stream->receive(buffer_).state == TcpStream::State::kClosed) {
    place->stream->close();
    streams_.erase(place);
    return;
  }
  // One read a turn: nobody else waits for this one.
  place->stream->when_readable([this, place] { drop_input(place); });
}

void LingeringCloses::close_old() {
  const Instant now = monotonic_now();
  while (!streams_.empty() && streams_.front().until <= now) {
    streams_.front().stream->close();
    streams_.pop_front();
  }
  if (streams_.empty()) {
    timer_runs_ = false;
    return;
  }
  timer_.after(streams_.front().until - now, [this] { close_old(); });
}

}  // namespace spillway
