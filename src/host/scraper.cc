#include "host/scraper.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "net/clock.h"

namespace spillway {
namespace {

constexpr std::size_t kPageMax = 16 * 1024 * 1024;

Result<EngineFacts> read_page(const Result<HttpReply>& reply) {
  if (!reply) {
    return reply.error();
  }
  if (reply->status != 200) {
    return Error{ErrorCode::kUnavailable, fmt::format("/metrics answered {}", reply->status)};
  }
  return read_vllm_page(parse_prometheus_text(reply->body));
}

}  // namespace

Scraper::Scraper(boost::asio::io_context& io, std::string address, Duration interval,
                 Callback callback)
    : io_(io),
      address_(std::move(address)),
      interval_(interval),
      callback_(std::move(callback)),
      timer_(io) {
  scrape();
}

Scraper::~Scraper() {
  drop_call(call_);
}

void Scraper::scrape() {
  const Instant next = monotonic_now() + interval_;
  HttpCall call{.address = address_,
                .path = "/metrics",
                .timeout = std::max<Duration>(interval_, std::chrono::seconds(1))};
  call_ = fetch(io_, std::move(call), kPageMax, [this, next](const Result<HttpReply>& reply) {
    callback_(address_, read_page(reply));
    // A slow page delays the next one: an engine in trouble is not asked more often.
    timer_.after(std::max<Duration>(next - monotonic_now(), Duration{}), [this] { scrape(); });
  });
}

}  // namespace spillway
