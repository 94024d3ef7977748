// A whole connection: callers and engines that send anything in any order, connections that fail,
// time that passes. Whatever happens, every request ends once, and nothing is left running.
#include <string>

#include "base/check.h"
#include "fuzz/cuts.h"
#include "session/session.h"

namespace spillway {
namespace {

std::shared_ptr<const Snapshot> snapshot() {
  Snapshot made;
  Policy policy;
  policy.rungs = {
      {.name = "short",
       .enter = 0.85,
       .hysteresis = 0.1,
       .actions = {BudgetRule{.max_tokens = 2, .classes = QosClassSet().set(), .hard = true}}}};
  made.policy = std::make_shared<const Policy>(policy);
  made.config.limits.body_bytes = 2000;
  made.config.limits.header_bytes = 1500;
  PoolConfig pool;
  pool.name = "chat";
  pool.models = {"m"};
  pool.replicas = {{{"a", 1}}, {{"b", 1}}};
  made.config.pools = {pool};
  return std::make_shared<const Snapshot>(std::move(made));
}

constexpr std::string_view kPieces[] = {
    "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 67\r\n\r\n"
    R"({"model":"m","stream":true,"messages":[{"role":"u","content":"hi"}]})",
    "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 28\r\n\r\n"
    R"({"model":"m","prompt":"hello"})",
    "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; "
    "boundary=b\r\nContent-Length: 200\r\n\r\n--b\r\nContent-Disposition: form-data; "
    "name=\"model\"\r\n\r\nm\r\n--b\r\n",
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 503 X\r\nContent-Length: 2\r\nRetry-After: 1\r\n\r\n{}",
    "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n{\"choices\":[{\"finish_reason\":1}]",
    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"error\":{\"code\":503}}\n\n",
    "data: [DONE]\n\n",
    ": ping\n\n",
    "0\r\n\r\n",
};

struct World {
  World() : services(1) {
    static const std::shared_ptr<const Snapshot> kSnapshot = snapshot();
    services.snapshot = kSnapshot;
    services.pools.apply(kSnapshot->config, kSnapshot->policy);
    session = std::make_unique<Session>(services, now);
  }

  void take() {
    for (const Effect& effect : session->take_effects()) {
      ended += std::holds_alternative<RequestEnded>(effect) ? 1 : 0;
      closed = closed || std::holds_alternative<CloseCaller>(effect);
      if (std::holds_alternative<ConnectEngine>(effect)) {
        CHECK(!engine);
        engine = true;
      } else if (std::holds_alternative<ReleaseEngine>(effect)) {
        CHECK(engine);
        engine = false;
      }
    }
    const Pool& pool = *services.pools.named("chat");
    CHECK(pool.in_flight() <= 1);
    CHECK(engine || pool.in_flight() == 0);
    for (const Replica& replica : pool.replicas()) {
      CHECK(replica.in_flight() >= 0 && replica.tokens_in_flight() >= 0);
    }
    CHECK(session->output(Side::kCaller).size() < Session::kOutputHigh + 200'000);
  }

  Instant now{std::chrono::seconds(100)};
  Services services;
  std::unique_ptr<Session> session;
  int ended = 0;
  bool engine = false;  // connecting or connected
  bool closed = false;
};

void step(World& world, std::uint8_t op, std::string_view& input) {
  Session& session = *world.session;
  const auto bytes = [&] {
    const std::size_t size = std::min<std::size_t>(take_byte(input), input.size());
    const std::string_view piece = input.substr(0, size);
    input.remove_prefix(size);
    return piece;
  };
  const auto piece = [&] { return kPieces[take_byte(input) % std::size(kPieces)]; };
  switch (op % 12) {
    case 0:
      return session.feed(Side::kCaller, bytes(), world.now);
    case 1:
      return session.feed(Side::kEngine, bytes(), world.now);
    case 2:
    case 3:
      return session.feed(Side::kCaller, piece(), world.now);
    case 4:
    case 5:
      return session.feed(Side::kEngine, piece(), world.now);
    case 6:
      return session.connected(op % 2 == 0, world.now);
    case 7:
      return session.connect_failed("refused", world.now);
    case 8:
      return session.closed(op >= 128 ? Side::kCaller : Side::kEngine, world.now);
    case 9:
      world.now += std::chrono::milliseconds(200 * take_byte(input));
      return session.wake(world.now);
    case 10:
      world.services.pools.named("chat")->pin_level(op >= 128 ? 1 : 0);
      world.services.pools.named("chat")->tick(world.now);
      return session.replica_hangs("a:1", world.now);
    default:
      session.sent(Side::kCaller, session.output(Side::kCaller).size());
      session.sent(Side::kEngine, session.output(Side::kEngine).size());
      if (op >= 240) {
        session.drain(world.now);
      }
  }
}

}  // namespace
}  // namespace spillway

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spillway;
  std::string_view input = as_text(data, size);
  World world;
  while (!input.empty()) {
    step(world, take_byte(input), input);
    world.take();
    world.session->sent(Side::kCaller, world.session->output(Side::kCaller).size());
  }
  world.session->closed(Side::kCaller, world.now);
  world.take();
  world.session->closed(Side::kCaller, world.now);
  world.take();
  CHECK(world.closed && !world.engine);
  CHECK(world.services.pools.named("chat")->in_flight() == 0);
  return 0;
}
