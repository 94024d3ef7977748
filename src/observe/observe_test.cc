#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "net/http_server.h"
#include "observe/gateway_status.h"
#include "observe/request_log.h"
#include "observe/request_metrics.h"
#include "observe/span_exporter.h"

namespace spillway {
namespace {

RequestRecord good_request() {
  return {.started = WallTime(std::chrono::milliseconds(1'700'000'000'123)),
          .queue_time = std::chrono::microseconds(1500),
          .time_to_first_token = std::chrono::milliseconds(80),
          .total_time = std::chrono::milliseconds(500),
          .request_id = "r1",
          .trace_id = "0af7651916cd43dd8448eb211c80319c",
          .span_id = "b7ad6b7169203331",
          .tenant = "core",
          .method = "POST",
          .route = "/v1/chat/completions",
          .model = "m",
          .pool = "chat",
          .replica = "127.0.0.1:8000",
          .qos_class = QosClass::kHigh,
          .level = 2,
          .actions = "budget=64 truncate=90>54",
          .streamed = true,
          .prompt_tokens = 54,
          .output_tokens = 64,
          .status = 200};
}

TEST(LogLine, HoldsEveryFieldOfTheRequest) {
  EXPECT_EQ(
      log_line(good_request(), "gate"),
      R"({"time":"2023-11-14T22:13:20.123Z","trace_id":"0af7651916cd43dd8448eb211c80319c",)"
      R"("span_id":"b7ad6b7169203331","service_name":"gate","request_id":"r1","tenant":"core","class":"high",)"
      R"("method":"POST","route":"/v1/chat/completions","model":"m","pool":"chat","replica":"127.0.0.1:8000",)"
      R"("level":2,"actions":"budget=64 truncate=90>54","streamed":true,"retries":0,"failovers":0,"prompt_tokens":54,"output_tokens":64,)"
      R"("queue_ms":1.5,"ttft_ms":80,"total_ms":500,"status":200,"outcome":"ok"})");
}

TEST(LogLine, StaysOneLineOfJsonWhateverTheCallerSends) {
  RequestRecord record = good_request();
  record.model = "a\"b\\c\n\x01\xff";

  const std::string line = log_line(record, "gate");

  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_TRUE(nlohmann::json::accept(line));
}

TEST(Span, CarriesTheTraceAndTheOutcome) {
  RequestRecord record = good_request();
  record.outcome = Outcome::kEngineCut;
  record.error = "cut";

  const OtlpSpan span = to_span(record);

  EXPECT_EQ(span.trace_id, record.trace_id);
  EXPECT_EQ(span.end - span.start, record.total_time);
  EXPECT_TRUE(span.failed);
}

TEST(RequestMetrics, CountsByPoolClassAndOutcome) {
  RequestMetrics metrics;
  metrics.add(good_request());
  metrics.add(good_request());
  RequestRecord refused = good_request();
  refused.outcome = Outcome::kRefused;
  refused.actions = "shed";
  metrics.add(refused);
  PrometheusWriter writer;
  metrics.write(writer);
  const PrometheusPage page = parse_prometheus_text(writer.text());

  EXPECT_EQ(page.unreadable_lines, 0);
  double ok = 0;
  double sheds = 0;
  double budgets = 0;
  for (const PrometheusSample& s : page.samples) {
    ok += s.name == "spillway_requests_total" && s.label("outcome") == "ok" ? s.value : 0;
    sheds += s.name == "spillway_actions_total" && s.label("action") == "shed" ? s.value : 0;
    budgets += s.name == "spillway_actions_total" && s.label("action") == "budget" ? s.value : 0;
  }
  EXPECT_EQ(ok, 2);
  EXPECT_EQ(sheds, 1);
  EXPECT_EQ(budgets, 2);
}

TEST(GatewayStatus, IsPrintedAsJsonAndAsMetrics) {
  GatewayStatus status{
      .policy_name = "p", .policy_version = "1", .pools = {{.name = "chat", .level = 1}}};
  status.pools[0].pressure.by_level = {1.5, 0.7};
  status.pools[0].replicas = {{.address = "a:1", .reachable = true, .kv_usage = 0.25}};
  status.pools[0].changes = {{3.5, 0, 1, "demand"}};

  const auto json = nlohmann::json::parse(to_json(status));
  PrometheusWriter writer;
  write_metrics(status, writer);
  const PrometheusPage page = parse_prometheus_text(writer.text());

  EXPECT_EQ(json["pools"][0]["level"], 1);
  EXPECT_EQ(json["pools"][0]["changes"][0]["reason"], "demand");
  EXPECT_DOUBLE_EQ(page.first("spillway_demand_pressure")->value, 1.5);
  EXPECT_DOUBLE_EQ(page.first("spillway_replica_kv_usage")->value, 0.25);
}

TEST(SpanExporter, SendsAFullBatchAndCountsWhatItDrops) {
  boost::asio::io_context io;
  std::string body;
  auto server =
      HttpServer::open(io, {}, [&](HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
        body = request.body;
        exchange->respond(200, "application/json", "{}");
      });
  ASSERT_TRUE(server.ok());
  SpanExporter exporter(io, {"127.0.0.1:" + std::to_string((*server)->port()), "/v1/traces"},
                        "gate");

  for (int i = 0; i < 10000; ++i) {
    exporter.add({.trace_id = "t", .span_id = "s", .name = "n"});
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (exporter.sent() < 512 && std::chrono::steady_clock::now() < deadline) {
    io.run_one_for(std::chrono::milliseconds(50));
  }

  EXPECT_GE(exporter.sent(), 512U);
  EXPECT_GT(exporter.dropped(), 0U);
  EXPECT_TRUE(nlohmann::json::accept(body));
}

}  // namespace
}  // namespace spillway
