#include "observe/span_exporter.h"

#include <algorithm>
#include <utility>

namespace spillway {
namespace {

constexpr std::size_t kWaitingMax = 8192;
constexpr std::size_t kBatch = 512;
constexpr auto kInterval = std::chrono::seconds(2);

}  // namespace

SpanExporter::SpanExporter(boost::asio::io_context& io, HttpUrl endpoint, std::string service_name)
    : io_(io), endpoint_(std::move(endpoint)), service_name_(std::move(service_name)), timer_(io) {
  wait();
}

SpanExporter::~SpanExporter() {
  drop_call(call_);
}

void SpanExporter::add(OtlpSpan span) {
  if (waiting_.size() >= kWaitingMax) {
    ++dropped_;
    return;
  }
  waiting_.push_back(std::move(span));
  if (waiting_.size() >= kBatch) {
    send();
  }
}

void SpanExporter::wait() {
  timer_.after(kInterval, [this] {
    send();
    wait();
  });
}

void SpanExporter::send() {
  if (call_ || waiting_.empty()) {
    return;
  }
  const std::size_t count = std::min(waiting_.size(), kBatch);
  HttpCall call{.method = "POST",
                .address = endpoint_.address,
                .path = endpoint_.path,
                .fields = {{"content-type", "application/json"}},
                .body = otlp_body(service_name_, std::span(waiting_).first(count))};
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
  call_ = fetch(io_, std::move(call), 64 * 1024, [this, count](Result<HttpReply> reply) {
    call_.reset();
    const bool taken = reply.ok() && reply->status < 300;
    (taken ? sent_ : dropped_) += count;
    if (taken && waiting_.size() >= kBatch) {
      send();
    }
  });
}

}  // namespace spillway
