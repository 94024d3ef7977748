#pragma once
// Reads the metrics page of one engine again and again, one fetch at a time, and hands each outcome
// on. Runs on the thread of its io_context; the callback runs there too.

#include <functional>
#include <string>

#include <boost/asio/io_context.hpp>

#include "base/result.h"
#include "base/time.h"
#include "net/http_client.h"
#include "net/timer.h"
#include "signals/engine_facts.h"

namespace spillway {

class Scraper {
 public:
  using Callback = std::function<void(const std::string& address, Result<EngineFacts>)>;

  // The first page is fetched at once.
  Scraper(boost::asio::io_context& io, std::string address, Duration interval, Callback callback);
  ~Scraper();
  Scraper(const Scraper&) = delete;
  Scraper& operator=(const Scraper&) = delete;

  const std::string& address() const { return address_; }
  Duration interval() const { return interval_; }

 private:
  void scrape();

  boost::asio::io_context& io_;
  std::string address_;
  Duration interval_;
  Callback callback_;
  Timer timer_;
  HttpCallPtr call_;
};

}  // namespace spillway
