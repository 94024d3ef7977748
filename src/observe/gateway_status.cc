#include "observe/gateway_status.h"

#include <nlohmann/json.hpp>

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json replica_json(const ReplicaStatus& r) {
  return {{"replica", r.address},
          {"reachable", r.reachable},
          {"page_age_seconds", r.page_age_seconds < 0 ? Json(nullptr) : Json(r.page_age_seconds)},
          {"in_flight", r.in_flight},
          {"running", number_or_null(r.running)},
          {"waiting", number_or_null(r.waiting)},
          {"kv_usage", number_or_null(r.kv_usage)},
          {"capacity_work_per_second", number_or_null(r.capacity)},
          {"failure", r.failure.empty() ? Json(nullptr) : Json(r.failure)}};
}

Json pool_json(const PoolStatus& p) {
  Json replicas = Json::array();
  for (const ReplicaStatus& r : p.replicas) {
    replicas.push_back(replica_json(r));
  }
  Json changes = Json::array();
  for (const ChangeStatus& c : p.changes) {
    changes.push_back(
        {{"seconds_ago", c.seconds_ago}, {"from", c.from}, {"to", c.to}, {"reason", c.reason}});
  }
  return {{"pool", p.name},
          {"models", p.models},
          {"level", p.level},
          {"level_name", p.level_name},
          {"pinned", p.pinned},
          {"in_flight", p.in_flight},
          {"pressure",
           {{"by_level", p.pressure.by_level},
            {"dominant", p.pressure.dominant},
            {"compute", number_or_null(p.pressure.compute)},
            {"kv", number_or_null(p.pressure.kv)},
            {"held", number_or_null(p.pressure.held)},
            {"backlog_seconds", p.pressure.backlog_seconds}}},
          {"replicas", replicas},
          {"changes", changes}};
}

}  // namespace

PoolStatus status_of(const Pool& pool, const Policy& policy, Instant now) {
  PoolStatus out{.name = pool.config().name,
                 .models = pool.config().models,
                 .level = pool.level(),
                 .pinned = pool.pinned(),
                 .in_flight = pool.in_flight(),
                 .pressure = pool.pressure(now)};
  const auto level = static_cast<std::size_t>(pool.level());
  out.level_name =
      level == 0 || level > policy.rungs.size() ? "normal" : policy.rungs[level - 1].name;
  for (const Replica& replica : pool.replicas()) {
    ReplicaStatus r{.address = replica.address(),
                    .reachable = replica.admits(now),
                    .facts_fresh = replica.facts_fresh(now),
                    .failure = replica.failure(now),
                    .in_flight = replica.in_flight(),
                    .capacity = replica.capacity().work_per_second(now)};
    if (replica.page_at()) {
      r.page_age_seconds = to_seconds(now - *replica.page_at());
    }
    if (replica.facts()) {
      r.running = replica.facts()->running;
      r.waiting = replica.facts()->waiting;
      r.kv_usage = replica.facts()->kv_usage;
    }
    out.replicas.push_back(std::move(r));
  }
  for (auto it = pool.changes().rbegin(); it != pool.changes().rend(); ++it) {
    out.changes.push_back({to_seconds(now - it->at), it->from, it->to, it->reason});
  }
  return out;
}

std::string to_json(const GatewayStatus& s) {
  Json pools = Json::array();
  for (const PoolStatus& p : s.pools) {
    pools.push_back(pool_json(p));
  }
  const Json body{
      {"policy",
       {{"name", s.policy_name}, {"version", s.policy_version}, {"source", s.policy_source}}},
      {"draining", s.draining},
      {"bypass_seconds_left", s.bypass_seconds},
      {"uptime_seconds", s.uptime_seconds},
      {"retries_left", s.retries_left},
      {"quarantined", s.quarantined},
      {"connections", s.connections},
      {"connections_refused", s.connections_refused},
      {"records_lost", s.records_lost},
      {"reloads", s.reloads},
      {"reloads_failed", s.reloads_failed},
      {"last_reload_error",
       s.last_reload_error.empty() ? Json(nullptr) : Json(s.last_reload_error)},
      {"pools", pools}};
  return body.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void write_metrics(const GatewayStatus& s, PrometheusWriter& writer) {
  const auto gauge = [&](std::string_view name, std::string_view help, auto value_of) {
    writer.family(name, "gauge", help);
    for (const PoolStatus& p : s.pools) {
      if (const std::optional<double> value = value_of(p)) {
        writer.sample(name, {{"pool", p.name}}, *value);
      }
    }
  };
  using Value = std::optional<double>;
  gauge("spillway_level", "Level of the degradation ladder; 0 is normal service.",
        [](const PoolStatus& p) -> Value { return p.level; });
  gauge("spillway_demand_pressure", "Offered load, priced at undegraded cost, over capacity.",
        [](const PoolStatus& p) -> Value {
          return p.pressure.by_level.empty() ? Value() : p.pressure.by_level[0];
        });
  gauge("spillway_pool_in_flight", "Requests with an engine.",
        [](const PoolStatus& p) -> Value { return static_cast<double>(p.in_flight); });
  gauge("spillway_backlog_seconds", "Waiting work in seconds of the pool's capacity.",
        [](const PoolStatus& p) -> Value { return p.pressure.backlog_seconds; });
  writer.family("spillway_replica_up", "gauge", "1 where the replica can be reached.");
  for (const PoolStatus& p : s.pools) {
    for (const ReplicaStatus& r : p.replicas) {
      writer.sample("spillway_replica_up", {{"pool", p.name}, {"replica", r.address}},
                    r.reachable ? 1 : 0);
    }
  }
  writer.family("spillway_replica_kv_usage", "gauge",
                "Share of the replica's KV cache in use, as its page says.");
  for (const PoolStatus& p : s.pools) {
    for (const ReplicaStatus& r : p.replicas) {
      if (r.kv_usage) {
        writer.sample("spillway_replica_kv_usage", {{"pool", p.name}, {"replica", r.address}},
                      *r.kv_usage);
      }
    }
  }
  const auto single = [&](std::string_view name, std::string_view type, std::string_view help,
                          double value) {
    writer.family(name, type, help);
    writer.sample(name, {}, value);
  };
  single("spillway_bypass", "gauge", "1 while the gateway is a plain proxy.",
         s.bypass_seconds > 0 ? 1 : 0);
  single("spillway_retries_left", "gauge", "What the retry budget would still allow.",
         static_cast<double>(s.retries_left));
  single("spillway_quarantined_requests", "gauge", "Requests that were live when an engine died.",
         static_cast<double>(s.quarantined));
  single("spillway_connections", "gauge", "Open connections of callers.",
         static_cast<double>(s.connections));
  single("spillway_connections_refused_total", "counter", "Connections beyond the limit.",
         static_cast<double>(s.connections_refused));
  single("spillway_records_lost_total", "counter",
         "Log lines and counts lost because their queue was full.",
         static_cast<double>(s.records_lost));
  single("spillway_reloads_total", "counter", "Configurations taken.",
         static_cast<double>(s.reloads));
  single("spillway_reloads_failed_total", "counter", "Configurations refused.",
         static_cast<double>(s.reloads_failed));
}

}  // namespace spillway
