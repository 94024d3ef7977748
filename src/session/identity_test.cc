#include "session/identity.h"

#include <string>

#include <gtest/gtest.h>

namespace spillway {
namespace {

RequestHead with(std::vector<HeaderField> fields) {
  return {.fields = std::move(fields)};
}

TEST(Identity, KeepsAWellFormedRequestIdAndMakesOneOtherwise) {
  Rng rng(1);
  const RequestHead good = with({{"X-Request-Id", "abc-1.2:3_4"}});
  const std::string long_id(129, 'a');

  EXPECT_EQ(anonymous(&good, rng).request_id, "abc-1.2:3_4");
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string("a\"b"), std::string("ü"), long_id}) {
    SCOPED_TRACE(bad);
    const RequestHead head = with({{"x-request-id", bad}});

    EXPECT_TRUE(anonymous(&head, rng).request_id.starts_with("req-"));
  }
  EXPECT_NE(anonymous(nullptr, rng).request_id, anonymous(nullptr, rng).request_id);
}

TEST(Identity, ContinuesATraceOrBeginsOne) {
  Rng rng(1);
  const RequestHead head =
      with({{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}});

  const Identity continued = anonymous(&head, rng);
  const Identity begun = anonymous(nullptr, rng);

  EXPECT_EQ(continued.trace.trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(continued.parent_span_id, "b7ad6b7169203331");
  EXPECT_NE(continued.trace.span_id, continued.parent_span_id);
  EXPECT_FALSE(continued.trace.sampled);
  EXPECT_EQ(begun.trace.trace_id.size(), 32U);
  EXPECT_TRUE(begun.parent_span_id.empty());
}

TEST(Identity, ReadsTheClassAndRefusesAnUnknownOne) {
  Identity identity;

  EXPECT_FALSE(classify(with({{"X-Spillway-Class", "critical"}}), {}, identity));
  EXPECT_EQ(identity.qos_class, QosClass::kCritical);
  EXPECT_EQ(classify(with({{"x-spillway-class", "vip"}}), {}, identity)->code, "unknown_class");
}

TEST(Identity, KnowsTenantsByTheirKeys) {
  Config config;
  config.tenants = {{"core", {"k1", "k2"}}, {"lab", {"k3"}}};
  Identity identity;

  EXPECT_FALSE(classify(with({{"Authorization", "bearer k3"}}), config, identity));
  EXPECT_EQ(identity.tenant, "lab");
  EXPECT_EQ(classify(with({{"authorization", "Bearer k9"}}), config, identity)->status, 401);
  EXPECT_EQ(classify(with({}), config, identity)->status, 401);
}

}  // namespace
}  // namespace spillway
