#include "admin/operations.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <set>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "host/child_process.h"
#include "net/clock.h"
#include "observe/request_log.h"
#include "wire/openai_error.h"

namespace spillway {
namespace {

namespace asio = boost::asio;

constexpr auto kCollectEvery = std::chrono::milliseconds(50);
constexpr auto kLookAtFilesEvery = std::chrono::seconds(1);

}  // namespace

Operations::Operations(Gateway& gateway, RecordQueue& records,
                       std::shared_ptr<const Snapshot> snapshot, Options options)
    : gateway_(gateway),
      records_(records),
      snapshot_(std::move(snapshot)),
      options_(std::move(options)),
      work_(asio::make_work_guard(io_)),
      signals_(io_, SIGINT, SIGTERM, SIGHUP),
      collect_timer_(io_) {
  signals_.add(SIGUSR1);
}

Operations::~Operations() {
  stop();
}

Status Operations::start() {
  const HostPort& at = snapshot_->config.admin_listen;
  auto server = HttpServer::open(
      io_, {.host = at.host, .port = at.port, .listening_socket = options_.listening_socket},
      [this](const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) {
        handle(request, exchange);
      });
  if (!server) {
    return server.error();
  }
  server_ = *std::move(server);
  asio::post(io_, [this] {
    start_scrapers();
    start_export();
    wait_for_signals();
    watch_ = std::make_unique<FileWatch>(io_, options_.watched_files, kLookAtFilesEvery,
                                         [this] { reload("a watched file has changed"); });
    collect();
  });
  thread_ = std::jthread([this] { io_.run(); });
  return Ok{};
}

void Operations::stop() {
  if (!thread_.joinable()) {
    return;
  }
  io_.stop();
  thread_.join();
  drain_records();
  server_->stop();
  scrapers_.clear();
  watch_.reset();
  exporter_.reset();
}

// Asks the data path for its status; the answer comes back to this thread.
void Operations::with_status(std::function<void(const GatewayStatus&)> callback) {
  asio::post(gateway_.io(), [this, callback = std::move(callback)]() mutable {
    asio::post(io_,
               [status = gateway_.status(), callback = std::move(callback)] { callback(status); });
  });
}

void Operations::handle(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) {
  if (request.path == "/admin/v1/bypass" && request.method == "POST") {
    take_bypass(request, exchange);
    return;
  }
  if (request.method != "GET") {
    exchange->respond(405, "application/json",
                      to_json({.status = 405, .message = "This path has another method."}));
    return;
  }
  if (request.path == "/metrics") {
    with_status([this, exchange](const GatewayStatus& status) { write_page(status, exchange); });
  } else if (request.path == "/admin/v1/status") {
    with_status([exchange](const GatewayStatus& status) {
      exchange->respond(200, "application/json", to_json(status));
    });
  } else if (request.path == "/livez") {
    exchange->respond(200, "text/plain", "ok\n");
  } else {
    exchange->respond(
        404, "application/json",
        to_json({.status = 404,
                 .message = "There is no such path; try /metrics or /admin/v1/status."}));
  }
}

// {"seconds": 600}: a plain proxy for so long, at most a day; 0 ends it.
void Operations::take_bypass(const HttpRequest& request,
                             const std::shared_ptr<HttpExchange>& exchange) {
  constexpr double kMost = 24 * 3600;
  const auto body = nlohmann::json::parse(request.body, nullptr, false);
  const auto seconds = body.is_object() ? body.find("seconds") : body.end();
  if (!body.is_object() || seconds == body.end() || !seconds->is_number() ||
      seconds->get<double>() < 0 || seconds->get<double>() > kMost) {
    exchange->respond(400, "application/json",
                      to_json({.message = "Give {\"seconds\": N}, 0 to 86400; 0 ends the bypass.",
                               .param = "seconds"}));
    return;
  }
  const double span = seconds->get<double>();
  asio::post(gateway_.io(), [this, span] { gateway_.bypass(from_seconds(span)); });
  exchange->respond(200, "application/json", fmt::format("{{\"seconds\":{}}}\n", span));
}

void Operations::write_page(const GatewayStatus& status,
                            const std::shared_ptr<HttpExchange>& exchange) {
  drain_records();
  PrometheusWriter writer;
  write_metrics(status, writer);
  metrics_.write(writer);
  if (exporter_) {
    writer.family("spillway_spans_sent_total", "counter", "Spans that the collector has taken.");
    writer.sample("spillway_spans_sent_total", {}, static_cast<double>(exporter_->sent()));
    writer.family("spillway_spans_dropped_total", "counter",
                  "Spans lost: the collector was slow or refused them.");
    writer.sample("spillway_spans_dropped_total", {}, static_cast<double>(exporter_->dropped()));
  }
  exchange->respond(200, "text/plain; version=0.0.4", writer.text());
}

void Operations::drain_records() {
  const RecordQueue::Batch batch = records_.take();
  std::string out;
  for (const RequestRecord& record : batch.records) {
    metrics_.add(record);
    if (snapshot_->config.log_requests) {
      out.append(log_line(record, snapshot_->config.service_name)).push_back('\n');
    }
    if (exporter_ && record.sampled) {
      exporter_->add(to_span(record));
    }
  }
  for (const std::string& line : batch.lines) {
    out.append(line).push_back('\n');
  }
  if (!out.empty()) {
    std::fwrite(out.data(), 1, out.size(), stdout);
    std::fflush(stdout);
  }
}

void Operations::collect() {
  drain_records();
  collect_timer_.after(kCollectEvery, [this] { collect(); });
}

// The scraper of this address: one that has not changed goes on in its rhythm, since a reload every
// second must not blind us.
std::unique_ptr<Scraper> Operations::scraper_of(const std::string& address, Duration interval) {
  for (std::unique_ptr<Scraper>& known : scrapers_) {
    if (known && known->address() == address && known->interval() == interval) {
      return std::move(known);
    }
  }
  return std::make_unique<Scraper>(
      io_, address, interval, [this](const std::string& from, Result<EngineFacts> facts) {
        asio::post(gateway_.io(),
                   [this, from, facts = std::move(facts)] { gateway_.on_page(from, facts); });
      });
}

void Operations::start_scrapers() {
  std::vector<std::unique_ptr<Scraper>> kept;
  std::set<std::string> addresses;  // a replica of two pools is read once
  for (const PoolConfig& pool : snapshot_->config.pools) {
    for (const ReplicaConfig& replica : pool.replicas) {
      if (addresses.insert(replica.address()).second) {
        kept.push_back(scraper_of(replica.address(), pool.scrape_interval));
      }
    }
  }
  scrapers_ = std::move(kept);
}

void Operations::start_export() {
  exporter_.reset();
  if (snapshot_->config.otlp_endpoint.empty()) {
    return;
  }
  if (auto endpoint = parse_http_url(snapshot_->config.otlp_endpoint)) {
    exporter_.emplace(io_, *std::move(endpoint), snapshot_->config.service_name);
  }
}

void Operations::reload(const std::string& why) {
  auto snapshot = options_.load();
  if (!snapshot) {
    note("reload_refused", why + "; nothing was changed: " + snapshot.error().message);
    asio::post(gateway_.io(),
               [this, message = snapshot.error().message] { gateway_.reload_failed(message); });
    return;
  }
  take_snapshot(*std::move(snapshot));
  note("reloaded", why + "; policy " + snapshot_->policy->name + "@" + snapshot_->policy->version);
}

void Operations::take_snapshot(std::shared_ptr<const Snapshot> snapshot) {
  const bool other_collector = snapshot->config.otlp_endpoint != snapshot_->config.otlp_endpoint;
  snapshot_ = std::move(snapshot);
  start_scrapers();
  if (other_collector) {
    start_export();
  }
  asio::post(gateway_.io(), [this, taken = snapshot_] { gateway_.apply(taken); });
}

void Operations::wait_for_signals() {
  signals_.async_wait([this](boost::system::error_code stopped, int signal) {
    if (stopped) {
      return;
    }
    if (signal == SIGHUP) {
      reload("SIGHUP");
    } else if (signal == SIGUSR1) {
      server_->stop();  // operators talk to the new one
      options_.replaced();
    } else {
      options_.interrupted();
    }
    wait_for_signals();
  });
}

void Operations::note(const std::string& event, const std::string& message) {
  records_.push_line(fmt::format(R"({{"time":"{}","service_name":{},"event":"{}","message":{}}})",
                                 iso_time(wall_now()), json_string(snapshot_->config.service_name),
                                 event, json_string(message)));
  std::fprintf(stderr, "%s: %s\n", event.c_str(), message.c_str());
}

}  // namespace spillway
