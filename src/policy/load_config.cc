#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "policy/config.h"
#include "policy/map_reader.h"
#include "policy/units.h"
#include "policy/yaml_document.h"

namespace spillway {
namespace {

using Need = MapReader::Need;
using Kind = YamlNode::Kind;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;
constexpr std::int64_t kTokensMax = 1'000'000'000;

void read_host_port(MapReader& reader, std::string_view key, HostPort& out, Need need) {
  std::string text;
  reader.text(key, text, need);
  if (text.empty()) {
    return;
  }
  if (const auto address = parse_host_port(text)) {
    out = *address;
  } else {
    reader.problem(reader.line_of(key), key, fmt::format("\"{}\" is not HOST:PORT", text),
                   "give an address such as 127.0.0.1:8080");
  }
}

void read_limits(Reading& reading, const YamlNode& node, Limits& limits) {
  MapReader reader(reading, node, "limits");
  reader.bytes("body", limits.body_bytes, {kKiB, 1024 * kMiB});
  reader.bytes("header", limits.header_bytes, {kKiB, kMiB});
  reader.count("connections", limits.connections, {1, 1'000'000});
  reader.duration("header_timeout", limits.header_timeout, {milliseconds(100), hours(1)});
  reader.duration("body_timeout", limits.body_timeout, {milliseconds(100), hours(1)});
  reader.duration("idle_timeout", limits.idle_timeout, {milliseconds(100), hours(1)});
  reader.duration("connect_timeout", limits.connect_timeout, {milliseconds(10), seconds(60)});
  reader.duration("between_tokens_timeout", limits.between_tokens_timeout,
                  {milliseconds(100), hours(1)});
  reader.duration("request_timeout", limits.request_timeout, {milliseconds(100), hours(24)});
  reader.duration("stream_timeout", limits.stream_timeout, {milliseconds(100), hours(24)});
  reader.duration("caller_timeout_max", limits.caller_timeout_max, {milliseconds(100), hours(24)});
  reader.duration("keepalive_interval", limits.keepalive_interval, {milliseconds(100), hours(1)});
  reader.duration("drain_timeout", limits.drain_timeout, {milliseconds(0), hours(1)});
}

void read_classes(Reading& reading, const YamlNode& node, Config& config) {
  MapReader reader(reading, node, "classes");
  for (const QosClass c : kQosClasses) {
    const std::string name(name_of(c));
    if (const YamlNode* body = reader.child(name, Kind::kMap)) {
      ClassLimits& limits = config.classes[index_of(c)];
      MapReader one(reading, *body, "classes." + name);
      one.duration("first_token_timeout", limits.first_token_timeout, {milliseconds(10), hours(1)});
      one.count("retries", limits.retries, {0, 10});
    }
  }
}

// "http://10.0.0.1:8000" or with a final slash.
std::optional<HostPort> parse_engine_url(std::string_view url) {
  if (!url.starts_with("http://")) {
    return std::nullopt;
  }
  url.remove_prefix(7);
  if (url.ends_with('/')) {
    url.remove_suffix(1);
  }
  auto address = parse_host_port(url);
  return address && address->port != 0 ? address : std::nullopt;
}

void read_replicas(Reading& reading, const YamlNode& list, const std::string& path,
                   PoolConfig& pool) {
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    MapReader reader(reading, list.items[i], fmt::format("{}.replicas[{}]", path, i));
    std::string url;
    reader.text("url", url, Need::kRequired);
    if (url.empty()) {
      continue;
    }
    const auto address = parse_engine_url(url);
    if (!address) {
      reader.problem(reader.line_of("url"), "url",
                     fmt::format("\"{}\" is not an engine's address", url),
                     "give http://HOST:PORT without a path (TLS to engines is not supported)");
      continue;
    }
    const bool twice = std::ranges::any_of(
        pool.replicas, [&](const ReplicaConfig& r) { return r.address() == to_text(*address); });
    if (twice) {
      reader.problem(reader.line_of("url"), "url", fmt::format("{} is named twice", url),
                     "name it once");
      continue;
    }
    pool.replicas.push_back({*address});
  }
  if (list.items.empty()) {
    reading.errors.push_back({.file = reading.file,
                              .line = std::max(list.line, 1),
                              .path = path + ".replicas",
                              .problem = "is an empty list",
                              .remedy = "name at least one engine: - url: http://127.0.0.1:8000"});
  }
}

void read_learned(MapReader& reader, PoolConfig& pool) {
  const auto is_auto = [&](std::string_view key) {
    const YamlNode* node = reader.scalar(key);
    return node == nullptr || node->scalar == "auto";
  };
  if (!is_auto("capacity")) {
    double rate = 0;
    reader.token_rate("capacity", rate, {0.1, 1e9});
    pool.capacity = rate;
  }
  if (!is_auto("kv_tokens")) {
    std::int64_t tokens = 0;
    reader.tokens("kv_tokens", tokens, {1, kTokensMax});
    pool.kv_tokens = tokens;
  }
}

PoolConfig read_pool(Reading& reading, const YamlNode& node, std::size_t index) {
  const std::string path = fmt::format("pools[{}]", index);
  MapReader reader(reading, node, path);
  PoolConfig pool;
  reader.text("name", pool.name, Need::kRequired);
  reader.texts("models", pool.models, Need::kRequired);
  if (const YamlNode* list = reader.child("replicas", Kind::kList, Need::kRequired)) {
    read_replicas(reading, *list, path, pool);
  }
  std::string engine = "vllm";
  reader.text("engine", engine);
  if (engine != "vllm") {
    reader.problem(reader.line_of("engine"), "engine", fmt::format("\"{}\" is not known", engine),
                   "this version reads vllm (Spillway's own engine speaks it too)");
  }
  reader.duration("scrape_interval", pool.scrape_interval, {milliseconds(100), seconds(60)});
  read_learned(reader, pool);
  reader.number("prompt_token_cost", pool.prompt_token_cost, {0, 10});
  reader.tokens("default_max_tokens", pool.default_max_tokens, {1, kTokensMax});
  reader.count("max_in_flight", pool.max_in_flight, {1, 1'000'000});
  reader.flag("priority_scheduling", pool.priority_scheduling);
  reader.duration("no_progress_timeout", pool.no_progress_timeout, {milliseconds(100), hours(1)});
  return pool;
}

void read_pools(Reading& reading, const YamlNode& list, Config& config) {
  std::set<std::string> names;
  std::set<std::string> models;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    PoolConfig pool = read_pool(reading, list.items[i], i);
    const auto twice = [&](std::string_view what, const std::string& name) {
      reading.errors.push_back({.file = reading.file,
                                .line = std::max(list.items[i].line, 1),
                                .path = fmt::format("pools[{}]", i),
                                .problem = fmt::format("the {} \"{}\" appears twice", what, name),
                                .remedy = "every pool and model has one place"});
    };
    if (!pool.name.empty() && !names.insert(pool.name).second) {
      twice("pool", pool.name);
    }
    for (const std::string& model : pool.models) {
      if (!models.insert(model).second) {
        twice("model", model);
      }
    }
    config.pools.push_back(std::move(pool));
  }
  if (list.items.empty()) {
    reading.errors.push_back({.file = reading.file,
                              .line = std::max(list.line, 1),
                              .path = "pools",
                              .problem = "is an empty list",
                              .remedy = "name at least one pool"});
  }
}

void read_tenants(Reading& reading, const YamlNode& list, Config& config) {
  std::set<std::string> keys;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    MapReader reader(reading, list.items[i], fmt::format("tenants[{}]", i));
    TenantConfig tenant;
    reader.text("name", tenant.name, Need::kRequired);
    reader.texts("keys", tenant.keys, Need::kRequired);
    for (const std::string& key : tenant.keys) {
      if (!keys.insert(key).second) {
        reader.problem(reader.line_of("keys"), "keys", "a key appears twice in the file",
                       "a key belongs to one tenant");
      }
    }
    config.tenants.push_back(std::move(tenant));
  }
}

void read_root(Reading& reading, const YamlNode& document, Config& config) {
  MapReader root(reading, document, "");
  read_host_port(root, "listen", config.listen, Need::kOptional);
  if (const YamlNode* body = root.child("admin", Kind::kMap)) {
    MapReader admin(reading, *body, "admin");
    read_host_port(admin, "listen", config.admin_listen, Need::kOptional);
    if (config.admin_listen.host != "127.0.0.1" && config.admin_listen.host != "::1" &&
        config.admin_listen.host != "localhost") {
      admin.problem(admin.line_of("listen"), "listen", "the operators' port has no password yet",
                    "bind it to 127.0.0.1");
    }
  }
  root.text("service_name", config.service_name);
  root.text("policy", config.policy_file);
  if (config.policy_file.empty()) {
    root.warning(1, "policy", "is missing: nothing is ever degraded", "name a policy file");
  }
  if (const YamlNode* body = root.child("log", Kind::kMap)) {
    MapReader(reading, *body, "log").flag("requests", config.log_requests);
  }
  if (const YamlNode* body = root.child("otlp", Kind::kMap)) {
    MapReader otlp(reading, *body, "otlp");
    otlp.text("endpoint", config.otlp_endpoint, Need::kRequired);
    if (!config.otlp_endpoint.empty() && !config.otlp_endpoint.starts_with("http://")) {
      otlp.problem(otlp.line_of("endpoint"), "endpoint",
                   fmt::format("\"{}\" is not a plain HTTP address", config.otlp_endpoint),
                   "give http://HOST:4318/v1/traces");
    }
  }
  if (const YamlNode* list = root.child("tenants", Kind::kList)) {
    read_tenants(reading, *list, config);
  }
  if (const YamlNode* body = root.child("limits", Kind::kMap)) {
    read_limits(reading, *body, config.limits);
  }
  if (const YamlNode* body = root.child("classes", Kind::kMap)) {
    read_classes(reading, *body, config);
  }
  if (const YamlNode* list = root.child("pools", Kind::kList, Need::kRequired)) {
    read_pools(reading, *list, config);
  }
}

}  // namespace

std::optional<HostPort> parse_host_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return std::nullopt;
  }
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[')) {
    if (!host.ends_with(']') || host.size() < 4) {
      return std::nullopt;
    }
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;  // an IPv6 address needs its brackets
  }
  if (host.find_first_of(" /@?#%\\[]") != std::string_view::npos) {
    return std::nullopt;
  }
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc{} || end != port.data() + port.size() || port.empty()) {
    return std::nullopt;
  }
  return HostPort{std::string(host), number};
}

std::string to_text(const HostPort& address) {
  return address.host.find(':') == std::string::npos
             ? fmt::format("{}:{}", address.host, address.port)
             : fmt::format("[{}]:{}", address.host, address.port);
}

Result<Config> load_config(std::string_view text, std::string_view file_name,
                           std::vector<Finding>* warnings) {
  std::vector<Finding> errors;
  Config config;
  const YamlNode document = parse_yaml(text, file_name, errors);
  if (!errors.empty()) {
    return to_error(errors);
  }
  Reading reading{std::string(file_name), errors, warnings};
  read_root(reading, document, config);
  if (!errors.empty()) {
    return to_error(errors);
  }
  return config;
}

}  // namespace spillway
