#pragma once
// The gateway's configuration as types. Immutable once loaded. The YAML form is in
// docs/configuration.md.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "policy/findings.h"
#include "policy/qos_class.h"

namespace spillway {

// "127.0.0.1:8080" or "[::1]:8080".
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};

// Reads HOST:PORT; port 0 is allowed (the system chooses one).
std::optional<HostPort> parse_host_port(std::string_view text);
std::string to_text(const HostPort& address);

struct ReplicaConfig {
  HostPort at;  // plain HTTP only, for now
  std::string address() const { return to_text(at); }
};

struct PoolConfig {
  std::string name;
  std::vector<std::string> models;  // names callers may use; the first is what the engines know
  std::vector<ReplicaConfig> replicas;
  Duration scrape_interval = std::chrono::seconds(1);
  std::optional<double> capacity;   // work a second and replica; nothing: learned
  double prompt_token_cost = 0.25;  // what a prompt token costs, a generated one being 1
  std::optional<std::int64_t>
      kv_tokens;  // KV capacity of a replica; nothing: from its metrics page
  std::int64_t default_max_tokens =
      256;                  // what a request without a budget is taken for when demand is priced
  int max_in_flight = 256;  // requests in the whole pool at once; more are refused
  bool priority_scheduling = false;  // the engine honours `priority` (vLLM: lower goes first)
  // Requests run and no token comes for so long: the replica hangs, whatever its /health says.
  Duration no_progress_timeout = std::chrono::seconds(30);
};

struct TenantConfig {
  std::string name;
  std::vector<std::string> keys;
};

// Of one class (source document, section 3.2).
struct ClassLimits {
  Duration first_token_timeout{};  // of a stream: from arrival to its first content
  int retries = 0;                 // attempts after an engine answered with an error
};

struct Limits {
  std::int64_t body_bytes = 8 * 1024 * 1024;
  std::int64_t header_bytes = 32 * 1024;
  int connections = 10000;
  // Of the caller's side; absolute, so that a byte now and then does not hold a connection.
  Duration header_timeout = std::chrono::seconds(10);
  Duration body_timeout = std::chrono::seconds(60);
  Duration idle_timeout = std::chrono::seconds(60);  // between two requests of a connection
  // Of the engine's side.
  Duration connect_timeout = std::chrono::seconds(2);
  Duration between_tokens_timeout = std::chrono::seconds(30);
  Duration request_timeout = std::chrono::seconds(600);     // of a reply in one piece, in all
  Duration stream_timeout = std::chrono::hours(1);          // of a stream, in all
  Duration caller_timeout_max = std::chrono::seconds(600);  // the most a caller may ask for
  Duration keepalive_interval = std::chrono::seconds(10);   // silence before a comment is sent
  Duration drain_timeout = std::chrono::seconds(25);        // for streams at shutdown
};

struct Config {
  HostPort listen{"127.0.0.1", 8080};
  HostPort admin_listen{"127.0.0.1", 8081};
  std::string service_name = "spillway";
  std::string policy_file;  // as written; relative to the configuration file. Empty: no ladder
  bool log_requests = true;
  std::string otlp_endpoint;  // empty: spans are not exported
  std::vector<TenantConfig>
      tenants;  // empty: everybody is "default", keys are passed on to the engine
  Limits limits;
  std::array<ClassLimits, kQosClassCount> classes = {
      {{std::chrono::seconds(2), 0}, {std::chrono::seconds(5), 2}, {std::chrono::seconds(15), 3}}};
  std::vector<PoolConfig> pools;
};

// Reads a configuration. Errors as load_policy.
Result<Config> load_config(std::string_view text, std::string_view file_name,
                           std::vector<Finding>* warnings = nullptr);

}  // namespace spillway
