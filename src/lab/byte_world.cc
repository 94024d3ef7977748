#include "lab/byte_world.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "wire/sse.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kScrape = seconds(1);
constexpr std::string_view kStreamHead =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

std::string event(const std::string& json) {
  std::string data;
  append_sse_data(data, json);
  std::string out;
  append_chunk(out, data);
  return out;
}

std::int64_t number_behind(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  std::int64_t value = -1;
  if (at != std::string_view::npos) {
    std::from_chars(text.data() + at + key.size(), text.data() + text.size(), value);
  }
  return value;
}

std::shared_ptr<const Policy> policy() {
  Policy made;
  const QosClassSet everyone = QosClassSet().set();
  made.rungs = {{.name = "short",
                 .enter = 0.85,
                 .hysteresis = 0.2,
                 .actions = {BudgetRule{.max_tokens = 12, .classes = everyone, .hard = true}}},
                {.name = "shed",
                 .enter = 1.0,
                 .hysteresis = 0.2,
                 .actions = {BudgetRule{.max_tokens = 8, .classes = everyone},
                             ShedRule{.classes = QosClassSet().set(index_of(QosClass::kNormal)),
                                      .retry_after = seconds(5)}}}};
  return std::make_shared<const Policy>(std::move(made));
}

}  // namespace

struct ByteWorld::Engine {
  std::string address;
  std::uint16_t port = 0;
  SimulatedEngine sim{
      {.max_running = 8, .kv_blocks = 200, .step_base = std::chrono::milliseconds(100)}};
  bool up = true;
  bool refuses = false;                    // answers 503
  bool cuts = false;                       // ends streams in the middle
  int life = 0;                            // counts its processes
  std::map<SimId, std::uint64_t> callers;  // whom each sequence is for
  std::uint64_t planned = 0;               // the step that is expected
};

struct ByteWorld::Caller {
  std::uint64_t number = 0;
  std::unique_ptr<Session> session;
  std::uint64_t request = 0;  // 0: none under way
  bool stream = false;
  bool gone = false;
  bool closed = false;
  std::string received;  // of the present reply
  std::optional<Instant> wakes_at;

  // What it is connected to.
  Engine* engine = nullptr;
  int life = 0;
  std::uint64_t attempt = 0;
  std::string sent;  // to the engine, not yet understood
  std::optional<SimId> sequence;
  std::int64_t tokens = 0;
  std::int64_t wanted = 0;
};

ByteWorld::ByteWorld(Options options)
    : options_(options), rng_(options.seed), end_(now_ + options.span), services_(options.seed) {
  Snapshot snapshot;
  snapshot.policy = policy();
  PoolConfig pool;
  pool.name = "chat";
  pool.models = {"m"};
  pool.no_progress_timeout = seconds(10);
  for (int i = 0; i < options_.engines; ++i) {
    auto engine = std::make_unique<Engine>();
    engine->port = static_cast<std::uint16_t>(i + 1);
    pool.replicas.push_back({{"engine", engine->port}});
    engine->address = pool.replicas.back().address();
    engines_.push_back(std::move(engine));
  }
  snapshot.config.pools = {pool};
  services_.pools.apply(snapshot.config, snapshot.policy);
  services_.snapshot = std::make_shared<const Snapshot>(std::move(snapshot));
}

ByteWorld::~ByteWorld() = default;

void ByteWorld::at(Instant when, std::function<void()> what) {
  events_.push({std::max(when, now_), ++orders_, std::move(what)});
}

void ByteWorld::violation(std::string what) {
  if (report_.violations.size() < 20) {
    report_.violations.push_back(
        fmt::format("{:.3f} s: {}", to_seconds(now_.time_since_epoch()), what));
  }
}

ByteWorld::Report ByteWorld::run() {
  at(now_, [this] { arrive(); });
  at(now_, [this] { tick(); });
  at(now_ + minutes(1), [this] { fault(); });
  at(now_ + minutes(1), [this] { reload(); });
  for (const auto& engine : engines_) {
    at(now_, [this, e = engine.get()] { scrape(*e); });
  }
  while (!events_.empty()) {
    Event next = events_.top();
    events_.pop();
    now_ = next.at;
    next.what();
    if (now_ > end_ && callers_.empty()) {
      break;
    }
    if (now_ > end_ + std::chrono::hours(2)) {
      violation(fmt::format("{} callers still wait", callers_.size()));
      break;
    }
  }
  finish();
  return std::move(report_);
}

void ByteWorld::finish() {
  const Pool& pool = *services_.pools.named("chat");
  if (pool.in_flight() != 0) {
    violation(fmt::format("{} requests are still in flight", pool.in_flight()));
  }
  for (const Replica& replica : pool.replicas()) {
    if (replica.in_flight() != 0 || replica.tokens_in_flight() != 0) {
      violation(replica.address() + " still holds requests");
    }
  }
  if (ended_.size() != report_.requests) {
    violation(fmt::format("{} requests, {} records", report_.requests, ended_.size()));
  }
}

// A new caller, or one that keeps its connection, asks.
void ByteWorld::arrive() {
  if (now_ > end_) {
    return;
  }
  // Storms: for a minute of each hour, forty times as many come.
  const bool storm = now_.time_since_epoch() % minutes(60) < minutes(1);
  const double rate = options_.requests_per_second * (storm ? 40 : 1);
  at(now_ + from_seconds(-std::log(1 - rng_.uniform()) / rate), [this] { arrive(); });
  for (auto& [number, caller] : callers_) {
    if (caller->request == 0 && !caller->closed && rng_.uniform() < 0.5) {
      ask(*caller);
      return;
    }
  }
  auto caller = std::make_unique<Caller>();
  caller->number = ++numbers_;
  caller->session = std::make_unique<Session>(services_, now_);
  Caller& made = *caller;
  callers_.emplace(made.number, std::move(caller));
  ask(made);
}

void ByteWorld::ask(Caller& caller) {
  caller.request = ++report_.requests;
  caller.stream = rng_.uniform() < 0.7;
  caller.received.clear();
  const double draw = rng_.uniform();
  const char* qos_class = draw < 0.2 ? "critical" : draw < 0.5 ? "high" : "normal";
  const auto tokens = 1 + static_cast<std::int64_t>(rng_.uniform() * 30);
  const std::string content(20 + static_cast<std::size_t>(rng_.uniform() * 800), 'x');
  const std::string body = fmt::format(
      R"({{"model":"m","seed":{},"stream":{},"max_tokens":{},"messages":[{{"role":"user","content":"{}"}}]}})",
      caller.request, caller.stream, tokens, content);
  const std::string request = fmt::format(
      "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nx-request-id: {}\r\nx-spillway-class: "
      "{}\r\ncontent-length: {}\r\n\r\n{}",
      caller.request, qos_class, body.size(), body);
  if (rng_.uniform() < 0.05) {
    at(now_ + from_seconds(rng_.uniform() * 3), [this, number = caller.number] { leave(number); });
  }
  // In two reads now and then.
  const auto cut = static_cast<std::size_t>(rng_.uniform() * static_cast<double>(request.size()));
  caller.session->feed(Side::kCaller, std::string_view(request).substr(0, cut), now_);
  caller.session->feed(Side::kCaller, std::string_view(request).substr(cut), now_);
  settle(caller);
}

void ByteWorld::leave(std::uint64_t number) {
  const auto it = callers_.find(number);
  if (it == callers_.end() || it->second->closed) {
    return;
  }
  Caller& caller = *it->second;
  report_.left += caller.request != 0 ? 1 : 0;
  caller.gone = true;
  caller.session->closed(Side::kCaller, now_);
  settle(caller);
}

// Performs what the session wants until it wants nothing more: what the gateway's pump() does.
void ByteWorld::settle(Caller& caller) {
  const std::uint64_t number = caller.number;
  bool again = true;
  while (again) {
    again = false;
    for (Effect& effect : caller.session->take_effects()) {
      again = perform(caller, effect) || again;
    }
    if (const std::string_view bytes = caller.session->output(Side::kCaller); !bytes.empty()) {
      caller.received.append(caller.gone ? "" : bytes);
      for (const char c : bytes) {
        report_.digest = (report_.digest ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
      }
      caller.session->sent(Side::kCaller, bytes.size());
      again = true;
    }
    if (const std::string_view bytes = caller.session->output(Side::kEngine); !bytes.empty()) {
      caller.sent.append(bytes);
      caller.session->sent(Side::kEngine, bytes.size());
      again = true;
    }
  }
  read_reply(caller);
  if (caller.closed) {
    if (caller.request != 0 && !caller.gone) {
      check_reply(caller, true);
    }
    callers_.erase(number);
    return;
  }
  wake_at(caller);
  if (caller.engine != nullptr && !caller.sequence && !caller.sent.empty()) {
    at(now_ + milliseconds(1), [this, number, attempt = caller.attempt] {
      const auto it = callers_.find(number);
      if (it != callers_.end() && it->second->attempt == attempt) {
        serve(*it->second);
      }
    });
  }
}

// True when the session may want more now.
bool ByteWorld::perform(Caller& caller, Effect& effect) {
  if (const auto* wanted = std::get_if<ConnectEngine>(&effect)) {
    ++caller.attempt;
    caller.sent.clear();
    at(now_ + milliseconds(1),
       [this, number = caller.number, attempt = caller.attempt, address = wanted->replica] {
         const auto it = callers_.find(number);
         if (it == callers_.end() || it->second->attempt != attempt) {
           return;
         }
         Caller& who = *it->second;
         Engine* engine = engine_named(address);
         if (engine == nullptr || !engine->up) {
           who.session->connect_failed("refused", now_);
         } else {
           who.engine = engine;
           who.life = engine->life;
           who.session->connected(rng_.uniform() < 0.5, now_);
         }
         settle(who);
       });
    return false;
  }
  if (std::holds_alternative<ReleaseEngine>(effect)) {
    ++caller.attempt;
    if (caller.sequence && caller.engine != nullptr && caller.life == caller.engine->life) {
      caller.engine->callers.erase(*caller.sequence);
      caller.engine->sim.cancel(*caller.sequence);
    }
    caller.engine = nullptr;
    caller.sequence.reset();
    caller.sent.clear();
    return false;
  }
  if (std::holds_alternative<CloseCaller>(effect)) {
    caller.closed = true;
    return false;
  }
  const RequestRecord& record = std::get<RequestEnded>(effect).record;
  std::uint64_t id = 0;
  std::from_chars(record.request_id.data(), record.request_id.data() + record.request_id.size(),
                  id);
  if (!ended_.insert(id).second) {
    violation(fmt::format("request {} ended twice", id));
  }
  ++report_.outcomes[std::string(name_of(record.outcome))];
  report_.retries += static_cast<std::uint64_t>(record.retries);
  report_.failovers += static_cast<std::uint64_t>(record.failovers);
  return true;
}

void ByteWorld::wake_at(Caller& caller) {
  const auto due = caller.session->deadline();
  if (!due || (caller.wakes_at && *caller.wakes_at <= *due)) {
    return;
  }
  caller.wakes_at = due;
  at(*due, [this, number = caller.number, when = *due] {
    const auto it = callers_.find(number);
    if (it == callers_.end() || it->second->wakes_at != when) {
      return;
    }
    it->second->wakes_at.reset();
    it->second->session->wake(now_);
    settle(*it->second);
  });
}

// Is the reply whole? Then it is looked at, and the caller is free for its next request.
void ByteWorld::read_reply(Caller& caller) {
  if (caller.request == 0 || caller.gone) {
    return;
  }
  const auto end = find_head_end(caller.received, 0);
  if (!end) {
    return;
  }
  const auto parsed = parse_response_head(std::string_view(caller.received).substr(0, *end), {});
  const auto* head = std::get_if<ResponseHead>(&parsed);
  if (head == nullptr) {
    violation(fmt::format("request {} got no HTTP", caller.request));
    return;
  }
  BodyDecoder decoder(head->framing);
  std::string_view rest = std::string_view(caller.received).substr(*end);
  while (!decoder.done()) {
    const auto step = decoder.decode(rest);
    const auto* piece = std::get_if<BodyDecoder::Piece>(&step);
    if (piece == nullptr) {
      violation(fmt::format("request {} got a broken body", caller.request));
      return;
    }
    if (piece->consumed == 0) {
      return;
    }
    rest.remove_prefix(piece->consumed);
  }
  if (!rest.empty()) {
    violation(fmt::format("request {} got more than its reply", caller.request));
  }
  check_reply(caller, false);
  caller.request = 0;
}

// Tokens are numbered: a reply holds 0, 1, 2 … without a gap, and says how it ended.
void ByteWorld::check_reply(Caller& caller, bool closed) {
  const std::string& reply = caller.received;
  if (!reply.starts_with("HTTP/1.1 ")) {
    violation(fmt::format("request {} got nothing", caller.request));
    return;
  }
  const bool ok = reply.starts_with("HTTP/1.1 200 ");
  std::int64_t expected = 0;
  for (std::size_t at = 0; (at = reply.find("\"t", at)) != std::string::npos; at += 2) {
    std::int64_t token = -1;
    std::from_chars(reply.data() + at + 2, reply.data() + reply.size(), token);
    if (token >= 0 && token != expected) {
      violation(
          fmt::format("request {} got token {} where {} was due", caller.request, token, expected));
      return;
    }
    expected += token >= 0 ? 1 : 0;
  }
  const bool failed = reply.find("\"error\"") != std::string::npos;
  const bool ended = reply.find("\"finish_reason\":\"") != std::string::npos;
  if (ok && !failed && !ended) {
    violation(fmt::format("request {} has no end", caller.request));
  }
  if (failed && reply.find("\"stop\"") != std::string::npos) {
    violation(fmt::format("request {} failed and says that it stopped", caller.request));
  }
  if (!ok && !failed) {
    violation(fmt::format("request {} was refused without a reason", caller.request));
  }
  if (closed && ok && caller.stream) {
    violation(fmt::format("request {} was cut", caller.request));
  }
  report_.whole_streams += ok && !failed && caller.stream ? 1 : 0;
}

ByteWorld::Engine* ByteWorld::engine_named(const std::string& address) {
  const auto it =
      std::ranges::find_if(engines_, [&](const auto& e) { return e->address == address; });
  return it == engines_.end() ? nullptr : it->get();
}

// The engine looks at what the gateway has sent it.
void ByteWorld::serve(Caller& caller) {
  Engine& engine = *caller.engine;
  const auto end = find_head_end(caller.sent, 0);
  if (!end || caller.sequence) {
    return;
  }
  const auto parsed = parse_request_head(std::string_view(caller.sent).substr(0, *end), {});
  const auto* head = std::get_if<RequestHead>(&parsed);
  if (head == nullptr || head->framing.kind != BodyFraming::Kind::kLength) {
    violation("an engine got no request");
    return;
  }
  if (caller.sent.size() < *end + head->framing.length) {
    return;
  }
  const std::string body = caller.sent.substr(*end, head->framing.length);
  caller.sent.erase(0, *end + head->framing.length);
  begin_serving(caller, engine, body);
}

void ByteWorld::begin_serving(Caller& caller, Engine& engine, const std::string& body) {
  if (engine.refuses && rng_.uniform() < 0.7) {
    to_caller(caller,
              "HTTP/1.1 503 X\r\nretry-after: 2\r\ncontent-length: 31\r\n\r\n"
              R"({"error":{"message":"I am full"}})");
    return;
  }
  const std::int64_t budget = number_behind(body, "\"max_tokens\":");
  caller.wanted = std::max<std::int64_t>(std::min<std::int64_t>(budget, 25), 1);
  caller.tokens = 0;
  const SimId id = ++orders_;
  if (!engine.sim.submit(now_, {.id = id,
                                .prompt_tokens = static_cast<std::int64_t>(body.size() / 4),
                                .output_tokens = caller.wanted})) {
    violation("a request does not fit");
    return;
  }
  caller.sequence = id;
  engine.callers.emplace(id, caller.number);
  plan_step(engine);
}

void ByteWorld::to_caller(Caller& caller, const std::string& bytes) {
  // Split anywhere: the session must not care.
  const auto cut = static_cast<std::size_t>(rng_.uniform() * static_cast<double>(bytes.size()));
  const std::uint64_t number = caller.number;
  const std::uint64_t attempt = caller.attempt;
  caller.session->feed(Side::kEngine, std::string_view(bytes).substr(0, cut), now_);
  settle(caller);
  const auto it = callers_.find(number);
  if (it != callers_.end() && it->second->attempt == attempt) {
    it->second->session->feed(Side::kEngine, std::string_view(bytes).substr(cut), now_);
    settle(*it->second);
  }
}

void ByteWorld::hang_up(Caller& caller) {
  caller.engine = nullptr;
  caller.sequence.reset();
  caller.session->closed(Side::kEngine, now_);
  settle(caller);
}

void ByteWorld::plan_step(Engine& engine) {
  const auto next = engine.sim.next_event();
  if (!next) {
    return;
  }
  const std::uint64_t plan = ++engine.planned;
  at(*next, [this, e = &engine, plan, life = engine.life] {
    if (e->planned == plan && e->life == life) {
      step(*e);
    }
  });
}

void ByteWorld::step(Engine& engine) {
  std::vector<SimToken> tokens;
  engine.sim.advance(now_, tokens);
  const int life = engine.life;
  for (const SimToken& token : tokens) {
    const auto who = engine.callers.find(token.id);
    const auto it = who == engine.callers.end() ? callers_.end() : callers_.find(who->second);
    if (it == callers_.end() || engine.life != life) {
      continue;
    }
    Caller& caller = *it->second;
    const bool whole = !caller.stream;
    std::string bytes;
    if (caller.stream) {
      if (token.index == 0) {
        bytes.append(kStreamHead);
        bytes += event(
            R"({"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})");
      }
      bytes += event(fmt::format(
          R"({{"id":"c","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{{"content":"t{}"}}}}]}})",
          token.index));
    }
    ++caller.tokens;
    if (engine.cuts && caller.tokens > 3 && rng_.uniform() < 0.1) {
      engine.callers.erase(token.id);
      engine.sim.cancel(token.id);
      hang_up(caller);
      continue;
    }
    if (token.last) {
      engine.callers.erase(token.id);
      caller.sequence.reset();
      const std::string usage =
          fmt::format(R"("usage":{{"prompt_tokens":9,"completion_tokens":{}}})", caller.tokens);
      if (whole) {
        std::string content;
        for (std::int64_t i = 0; i < caller.tokens; ++i) {
          content += fmt::format("{}{{\"text\":\"t{}\"}}", i > 0 ? "," : "", i);
        }
        const std::string body = fmt::format(
            R"({{"choices":[{{"message":{{"content":"x"}},"parts":[{}],"finish_reason":"stop"}}],{}}})",
            content, usage);
        bytes = fmt::format("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{}", body.size(), body);
      } else {
        bytes += event(R"({"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})");
        bytes += event(R"({"id":"c","choices":[],)" + usage + "}");
        bytes += event("[DONE]");
        bytes += kLastChunk;
      }
    }
    if (!bytes.empty()) {
      to_caller(caller, bytes);
    }
  }
  plan_step(engine);
}

void ByteWorld::scrape(Engine& engine) {
  if (now_ > end_ + minutes(30)) {
    return;
  }
  Pool& pool = *services_.pools.named("chat");
  if (!engine.up) {
    pool.on_page_failed(now_, engine.address, "refused");
  } else {
    const SimStats stats = engine.sim.stats();
    const int hangs = pool.hangs(engine.address);
    const bool same =
        pool.on_page(now_, engine.address,
                     {.kv_usage = stats.kv_usage,
                      .kv_capacity_tokens = 3200,
                      .running = stats.running,
                      .waiting = stats.waiting,
                      .prompt_tokens_total = static_cast<double>(stats.prompt_tokens),
                      .generation_tokens_total = static_cast<double>(stats.generation_tokens)});
    if (same) {
      services_.quarantine.on_alive(now_, engine.address);
    } else {
      services_.quarantine.on_dead(engine.address);
    }
    if (pool.hangs(engine.address) > hangs) {
      std::vector<std::uint64_t> all;
      for (const auto& [number, caller] : callers_) {
        all.push_back(number);
      }
      for (const std::uint64_t number : all) {
        if (const auto it = callers_.find(number); it != callers_.end()) {
          it->second->session->replica_hangs(engine.address, now_);
          settle(*it->second);
        }
      }
    }
  }
  at(now_ + kScrape, [this, e = &engine] { scrape(*e); });
}

void ByteWorld::die(Engine& engine) {
  const auto lost = std::exchange(engine.callers, {});
  engine.up = false;
  ++engine.life;
  engine.sim = SimulatedEngine(engine.sim.profile());
  for (auto& [number, caller] : callers_) {
    if (caller->engine == &engine) {
      caller->sequence.reset();
    }
  }
  std::vector<std::uint64_t> all;
  for (const auto& [number, caller] : callers_) {
    if (caller->engine == &engine) {
      all.push_back(number);
    }
  }
  for (const std::uint64_t number : all) {
    if (const auto it = callers_.find(number);
        it != callers_.end() && it->second->engine == &engine) {
      hang_up(*it->second);
    }
  }
}

void ByteWorld::fault() {
  if (now_ > end_) {
    return;
  }
  at(now_ + from_seconds(-std::log(1 - rng_.uniform()) * to_seconds(options_.between_faults)),
     [this] { fault(); });
  ++report_.faults;
  Engine& engine = *engines_[rng_.next() % engines_.size()];
  const Duration lasts = from_seconds(5 + rng_.uniform() * 60);
  switch (rng_.next() % 4) {
    case 0:
      if (engine.up) {
        die(engine);
        at(now_ + lasts, [e = &engine] { e->up = true; });
      }
      return;
    case 1:
      engine.sim.hang(now_);
      at(now_ + lasts, [this, e = &engine, life = engine.life] {
        if (e->life == life) {
          e->sim.go_on(now_);
          plan_step(*e);
        }
      });
      return;
    case 2:
      engine.refuses = true;
      at(now_ + lasts, [e = &engine] { e->refuses = false; });
      return;
    default:
      engine.cuts = true;
      at(now_ + lasts, [e = &engine] { e->cuts = false; });
  }
}

// Another version of the same configuration; now and then a replica is left out.
void ByteWorld::reload() {
  if (now_ > end_) {
    return;
  }
  at(now_ + options_.between_reloads, [this] { reload(); });
  ++report_.reloads;
  Snapshot snapshot = *services_.snapshot;
  PoolConfig& pool = snapshot.config.pools[0];
  pool.replicas.clear();
  for (const auto& engine : engines_) {
    if (rng_.uniform() < 0.9 || (pool.replicas.empty() && engine == engines_.back())) {
      pool.replicas.push_back({{"engine", engine->port}});
    }
  }
  services_.pools.apply(snapshot.config, snapshot.policy);
  services_.snapshot = std::make_shared<const Snapshot>(std::move(snapshot));
}

void ByteWorld::tick() {
  Pool& pool = *services_.pools.named("chat");
  pool.tick(now_);
  report_.level_max = std::max(report_.level_max, pool.level());
  for (const Replica& replica : pool.replicas()) {
    if (replica.in_flight() < 0 || replica.tokens_in_flight() < 0) {
      violation(replica.address() + " has less than nothing in flight");
    }
  }
  if (now_ < end_ + minutes(30)) {
    at(now_ + milliseconds(500), [this] { tick(); });
  }
}

}  // namespace spillway
