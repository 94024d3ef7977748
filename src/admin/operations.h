#pragma once
// The second thread: everything that is not a caller's request. It reads the engines' pages, writes
// the log, keeps metrics, exports spans, watches the files and answers operators. It owns its
// io_context and posts to the data path.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "gateway/gateway.h"
#include "gateway/record_queue.h"
#include "host/file_watch.h"
#include "host/scraper.h"
#include "net/http_server.h"
#include "net/timer.h"
#include "observe/request_metrics.h"
#include "observe/span_exporter.h"

namespace spillway {

// Reads the configuration and its policy again, with the flags of the command line applied.
using LoadSnapshot = std::function<Result<std::shared_ptr<const Snapshot>>()>;

class Operations {
 public:
  struct Options {
    LoadSnapshot load;
    std::vector<std::string> watched_files;
    std::function<void()> interrupted;  // SIGINT or SIGTERM; on this thread
    std::function<void()> replaced;     // SIGUSR1: another gateway listens now; on this thread
    int listening_socket = -1;          // inherited; below 0: bind the configured address
  };

  // REQUIRES: gateway, its io_context and records outlive this object.
  Operations(Gateway& gateway, RecordQueue& records, std::shared_ptr<const Snapshot> snapshot,
             Options options);
  ~Operations();

  // Opens the operators' port and starts the thread.
  Status start();
  // Writes what is left and ends the thread.
  void stop();

  std::uint16_t port() const { return server_->port(); }

 private:
  void handle(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange);
  void take_bypass(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange);
  void with_status(std::function<void(const GatewayStatus&)> callback);
  void write_page(const GatewayStatus& status, const std::shared_ptr<HttpExchange>& exchange);
  void drain_records();
  void collect();
  void take_snapshot(std::shared_ptr<const Snapshot> snapshot);
  std::unique_ptr<Scraper> scraper_of(const std::string& address, Duration interval);
  void start_scrapers();
  void start_export();
  void reload(const std::string& why);
  void wait_for_signals();
  void note(const std::string& event, const std::string& message);

  Gateway& gateway_;
  RecordQueue& records_;
  std::shared_ptr<const Snapshot> snapshot_;
  Options options_;
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  boost::asio::signal_set signals_;
  Timer collect_timer_;
  std::unique_ptr<HttpServer> server_;
  std::vector<std::unique_ptr<Scraper>> scrapers_;
  std::unique_ptr<FileWatch> watch_;
  std::optional<SpanExporter> exporter_;
  RequestMetrics metrics_;
  std::jthread thread_;
};

}  // namespace spillway
