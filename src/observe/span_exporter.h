#pragma once
// Sends spans to an OTLP/HTTP endpoint in batches. Bounded: at most 8,192 spans wait, later ones
// are dropped and counted; one POST is under way at a time. Runs on the thread of its io_context.

#include <cstdint>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "net/http_client.h"
#include "net/timer.h"
#include "wire/otlp.h"

namespace spillway {

class SpanExporter {
 public:
  SpanExporter(boost::asio::io_context& io, HttpUrl endpoint, std::string service_name);
  ~SpanExporter();

  void add(OtlpSpan span);
  std::uint64_t sent() const { return sent_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  void send();
  void wait();

  boost::asio::io_context& io_;
  HttpUrl endpoint_;
  std::string service_name_;
  Timer timer_;
  std::vector<OtlpSpan> waiting_;
  HttpCallPtr call_;
  std::uint64_t sent_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace spillway
