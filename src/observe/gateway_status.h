#pragma once
// What the gateway knows of itself at one moment, as a value: taken on the data-path thread,
// printed on the operators' one as JSON and as metrics.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "decision/pools.h"
#include "wire/prometheus_text.h"

namespace spillway {

struct ReplicaStatus {
  std::string address;
  bool reachable = false;
  bool facts_fresh = false;
  std::string failure;
  double page_age_seconds = -1;  // below 0: never
  int in_flight = 0;
  std::optional<double> running, waiting, kv_usage, capacity;
};

struct ChangeStatus {
  double seconds_ago = 0;
  int from = 0;
  int to = 0;
  std::string reason;
};

struct PoolStatus {
  std::string name;
  std::vector<std::string> models;
  int level = 0;
  std::string level_name;
  bool pinned = false;
  std::size_t in_flight = 0;
  Pressure pressure;
  std::vector<ReplicaStatus> replicas;
  std::vector<ChangeStatus> changes;  // newest first
};

struct GatewayStatus {
  std::string policy_name;
  std::string policy_version;
  std::string policy_source;
  bool draining = false;
  double bypass_seconds = 0;  // left of the bypass
  std::size_t connections = 0;
  std::uint64_t connections_refused = 0;
  std::uint64_t records_lost = 0;
  std::uint64_t reloads = 0;
  std::uint64_t reloads_failed = 0;
  std::string last_reload_error;
  double uptime_seconds = 0;
  std::int64_t retries_left = 0;  // in the retry budget
  std::size_t quarantined = 0;    // requests with a strike
  std::vector<PoolStatus> pools;
};

PoolStatus status_of(const Pool& pool, const Policy& policy, Instant now);

std::string to_json(const GatewayStatus& status);
void write_metrics(const GatewayStatus& status, PrometheusWriter& writer);

}  // namespace spillway
