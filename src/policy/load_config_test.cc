#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "policy/config.h"

namespace spillway {
namespace {

constexpr std::string_view kGood = R"(listen: 0.0.0.0:8080
admin: {listen: 127.0.0.1:8081}
service_name: gate
policy: policy.yaml
log: {requests: false}
otlp: {endpoint: http://127.0.0.1:4318/v1/traces}
tenants:
  - {name: core, keys: [secret-1, secret-2]}
limits:
  body: 1 MiB
  between_tokens_timeout: 30s
pools:
  - name: chat
    models: [smollm2-135m, smollm2]
    replicas:
      - url: http://127.0.0.1:8090
      - url: http://[::1]:8091/
    capacity: 250 tokens/s
    prompt_token_cost: 0.5
    kv_tokens: auto
    priority_scheduling: true
)";

std::string changed(std::string_view from, std::string_view to) {
  std::string text(kGood);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(LoadConfig, ReadsEveryKey) {
  const auto config = load_config(kGood, "c.yaml");

  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(to_text(config->listen), "0.0.0.0:8080");
  EXPECT_EQ(config->policy_file, "policy.yaml");
  EXPECT_FALSE(config->log_requests);
  EXPECT_EQ(config->tenants[0].keys.size(), 2U);
  EXPECT_EQ(config->limits.body_bytes, 1024 * 1024);
  ASSERT_EQ(config->pools.size(), 1U);
  const PoolConfig& pool = config->pools[0];
  EXPECT_EQ(pool.models[1], "smollm2");
  EXPECT_EQ(pool.replicas[1].address(), "[::1]:8091");
  EXPECT_DOUBLE_EQ(*pool.capacity, 250);
  EXPECT_FALSE(pool.kv_tokens);
  EXPECT_TRUE(pool.priority_scheduling);
}

TEST(LoadConfig, NamesFileLineKeyFaultAndRemedyOfEveryMistake) {
  struct Case {
    const char* name;
    std::string text;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"typo", changed("replicas:", "replica:"),
       "c.yaml:13: pools[0].replicas: is missing; add it"},
      {"path in url", changed("http://127.0.0.1:8090", "http://127.0.0.1:8090/v1"),
       "c.yaml:16: pools[0].replicas[0].url: \"http://127.0.0.1:8090/v1\" is not an engine's "
       "address; give "
       "http://HOST:PORT without a path (TLS to engines is not supported)"},
      {"no port", changed("0.0.0.0:8080", "localhost"),
       "c.yaml:1: listen: \"localhost\" is not HOST:PORT; give an address such as 127.0.0.1:8080"},
      {"replica twice", changed("http://[::1]:8091/", "http://127.0.0.1:8090/"),
       "c.yaml:17: pools[0].replicas[1].url: http://127.0.0.1:8090/ is named twice; name it once"},
      {"model twice", changed("[smollm2-135m, smollm2]", "[smollm2, smollm2]"),
       "c.yaml:13: pools[0]: the model \"smollm2\" appears twice; every pool and model has one "
       "place"},
      {"unknown engine", changed("capacity: 250 tokens/s", "engine: tgi"),
       "c.yaml:18: pools[0].engine: \"tgi\" is not known; this version reads vllm (Spillway's own "
       "engine speaks it "
       "too)"},
      {"rate without unit", changed("250 tokens/s", "250"),
       "c.yaml:18: pools[0].capacity: \"250\" is not a rate of tokens; give auto, or a number with "
       "its unit, such as "
       "250 tokens/s"},
      {"size without unit", changed("1 MiB", "1000000"),
       "c.yaml:10: limits.body: \"1000000\" is not a size; give a number with its unit, such as 32 "
       "KiB or 8 MiB"},
      {"yes for true", changed("requests: false", "requests: no"),
       "c.yaml:5: log.requests: \"no\" is neither true nor false; write true or false"},
      {"open admin port", changed("listen: 127.0.0.1:8081", "listen: 0.0.0.0:8081"),
       "c.yaml:2: admin.listen: the operators' port has no password yet; bind it to 127.0.0.1"},
      {"key of two tenants", changed("[secret-1, secret-2]", "[secret-1, secret-1]"),
       "c.yaml:8: tenants[0].keys: a key appears twice in the file; a key belongs to one tenant"},
      {"no pools", "listen: 127.0.0.1:8080\n", "c.yaml:1: pools: is missing; add it"},
  };

  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const auto config = load_config(c.text, "c.yaml");

    ASSERT_FALSE(config.ok());
    EXPECT_EQ(config.error().message.substr(0, config.error().message.find('\n')), c.message);
  }
}

TEST(HostPort, ReadsAddressesAndRefusesTheRest) {
  EXPECT_EQ(parse_host_port("127.0.0.1:0")->port, 0);
  EXPECT_EQ(parse_host_port("[::1]:80")->host, "::1");
  for (const char* text :
       {"", ":80", "host", "host:", "host:70000", "::1:80", "a b:1", "http://x:1", "host:8x"}) {
    SCOPED_TRACE(text);
    EXPECT_FALSE(parse_host_port(text));
  }
}

}  // namespace
}  // namespace spillway
