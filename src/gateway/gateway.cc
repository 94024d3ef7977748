#include "gateway/gateway.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "net/clock.h"
#include "observe/request_log.h"
#include "wire/openai_error.h"

namespace spillway {
namespace {

constexpr auto kTick = std::chrono::milliseconds(250);

}  // namespace

Gateway::Gateway(boost::asio::io_context& io, std::shared_ptr<const Snapshot> snapshot,
                 RecordQueue& records, Options options)
    : io_(io),
      records_(records),
      options_(options),
      services_(options.seed),
      engines_(io),
      tick_timer_(io),
      drain_timer_(io),
      turn_end_(io, [this] { pump_due(); }),
      lingering_(io, read_buffer_) {
  services_.monotonic_origin = monotonic_now();
  services_.wall_origin = wall_now();
  services_.pools.apply(snapshot->config, snapshot->policy);
  services_.snapshot = std::move(snapshot);
  pin_pools();
  tick();
}

Gateway::~Gateway() {
  const auto all = connections_;
  for (const auto& connection : all) {
    connection->close();
  }
}

Status Gateway::listen() {
  const HostPort& at = services_.snapshot->config.listen;
  auto listener = options_.listening_socket >= 0 ? Listener::adopt(io_, options_.listening_socket)
                                                 : Listener::open(io_, at.host, at.port);
  if (!listener) {
    return listener.error();
  }
  listener_ = *std::move(listener);
  listener_->start([this](std::unique_ptr<TcpStream> stream) { accept(std::move(stream)); });
  return Ok{};
}

void Gateway::accept(std::unique_ptr<TcpStream> stream) {
  const auto wanted = static_cast<std::size_t>(services_.snapshot->config.limits.connections);
  if (connections_.size() >= std::min(wanted, options_.connections_max)) {
    ++connections_refused_;
    const std::string body =
        to_json({.status = 503,
                 .message = "The gateway has as many connections as it can hold.",
                 .type = "overloaded",
                 .code = "connections"});
    stream->send(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: "
        "1\r\nconnection: close\r\ncontent-length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body);
    lingering_.add(std::move(stream));
    return;
  }
  const auto connection = std::make_shared<CallerConnection>(*this, std::move(stream));
  connections_.insert(connection);
  connection->start();
}

void Gateway::forget(const std::shared_ptr<CallerConnection>& connection) {
  connections_.erase(connection);
  if (services_.draining && connections_.empty() && drained_) {
    drain_timer_.cancel();
    std::exchange(drained_, nullptr)();
  }
}

void Gateway::pump_soon(std::shared_ptr<CallerConnection> connection) {
  due_.push_back(std::move(connection));
  turn_end_.ask();
}

void Gateway::pump_due() {
  std::vector<std::shared_ptr<CallerConnection>> due;
  due.swap(due_);
  for (const auto& connection : due) {
    connection->pump_due();
  }
  if (due_.empty()) {
    due.clear();
    due.swap(due_);  // its memory, for the next turn
  }
}

void Gateway::pin_pools() {
  if (options_.pin_level) {
    for (auto& [name, entry] : services_.pools) {
      entry.pool->pin_level(options_.pin_level);
    }
  }
}

void Gateway::apply(std::shared_ptr<const Snapshot> snapshot) {
  services_.pools.apply(snapshot->config, snapshot->policy);
  services_.snapshot = std::move(snapshot);
  ++reloads_;
  last_reload_error_.clear();
  pin_pools();
}

void Gateway::reload_failed(std::string why) {
  ++reloads_failed_;
  last_reload_error_ = std::move(why);
}

void Gateway::on_page(const std::string& replica, const Result<EngineFacts>& facts) {
  const Instant now = monotonic_now();
  for (auto& [name, entry] : services_.pools) {
    if (facts) {
      if (entry.pool->on_page(now, replica, *facts)) {
        services_.quarantine.on_alive(now, replica);
      } else {
        services_.quarantine.on_dead(replica);
      }
      look_for_hung(replica, *entry.pool);
    } else {
      entry.pool->on_page_failed(now, replica, facts.error().message);
    }
  }
}

// Requests that wait at a replica which hangs have nothing to wait for.
void Gateway::look_for_hung(const std::string& replica, const Pool& pool) {
  int& known = hangs_[pool.config().name + " " + replica];
  if (std::exchange(known, pool.hangs(replica)) >= pool.hangs(replica)) {
    return;
  }
  log_event("replica_hangs", replica + " of pool " + pool.config().name);
  const auto all = connections_;
  for (const auto& connection : all) {
    connection->replica_hangs(replica);
  }
}

void Gateway::bypass(Duration span) {
  services_.bypass_until = monotonic_now() + span;
  log_event("bypass", span > Duration{}
                          ? fmt::format("a plain proxy for {:.0f} s", to_seconds(span))
                          : std::string("ended"));
}

void Gateway::log_event(const std::string& event, const std::string& message) {
  records_.push_line(fmt::format(R"({{"time":"{}","service_name":{},"event":"{}","message":{}}})",
                                 iso_time(services_.wall_at(monotonic_now())),
                                 json_string(services_.snapshot->config.service_name), event,
                                 json_string(message)));
}

void Gateway::tick() {
  const Instant now = monotonic_now();
  for (auto& [name, entry] : services_.pools) {
    if (const auto change = entry.pool->tick(now)) {
      log_change(name, *change);
    }
  }
  services_.pools.sweep();
  tick_timer_.after(kTick, [this] { tick(); });
}

void Gateway::log_change(const std::string& pool, const LevelChange& change) {
  records_.push_line(fmt::format(
      R"({{"time":"{}","service_name":{},"event":"level","pool":{},"from":{},"to":{},"reason":{}}})",
      iso_time(services_.wall_at(change.at)), json_string(services_.snapshot->config.service_name),
      json_string(pool), change.from, change.to, json_string(change.reason)));
}

void Gateway::drain(std::function<void()> drained) {
  services_.draining = true;
  listener_->stop();
  tick_timer_.cancel();
  drained_ = std::move(drained);
  const auto all = connections_;
  for (const auto& connection : all) {
    connection->drain();
  }
  if (connections_.empty()) {
    if (drained_) {
      std::exchange(drained_, nullptr)();
    }
    return;
  }
  drain_timer_.after(services_.snapshot->config.limits.drain_timeout, [this] {
    const auto rest = connections_;
    for (const auto& connection : rest) {
      connection->close();
    }
  });
}

GatewayStatus Gateway::status() {
  const Instant now = monotonic_now();
  const Policy& policy = *services_.snapshot->policy;
  GatewayStatus out{.policy_name = policy.name,
                    .policy_version = policy.version,
                    .policy_source = policy.source,
                    .draining = services_.draining,
                    .bypass_seconds = std::max(to_seconds(services_.bypass_until - now), 0.0),
                    .connections = connections_.size(),
                    .connections_refused = connections_refused_,
                    .records_lost = records_.lost(),
                    .reloads = reloads_,
                    .reloads_failed = reloads_failed_,
                    .last_reload_error = last_reload_error_,
                    .uptime_seconds = to_seconds(now - services_.monotonic_origin),
                    .retries_left = services_.retry_budget.left(now),
                    .quarantined = services_.quarantine.size()};
  for (auto& [name, entry] : services_.pools) {
    if (!entry.retired) {
      out.pools.push_back(status_of(*entry.pool, policy, now));
    }
  }
  return out;
}

}  // namespace spillway
