#pragma once
// A gateway's sessions, its decisions and simulated engines on virtual time, every byte of it:
// callers who ask, wait, leave and read; engines that serve, refuse, cut, hang, die and come back;
// configurations that change under way. It counts what each side saw and looks for what must never
// be: a request answered twice or not at all, a token lost or repeated, a replica's accounts that
// do not come back to zero. The same seed gives the same world on any machine. One strand.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "session/session.h"
#include "sim/simulated_engine.h"

namespace spillway {

class ByteWorld {
 public:
  struct Options {
    std::uint64_t seed = 1;
    int engines = 3;
    double requests_per_second = 0.5;
    Duration span = std::chrono::hours(1);
    Duration between_faults = std::chrono::minutes(3);  // on average
    Duration between_reloads = std::chrono::minutes(1);
  };
  struct Report {
    std::uint64_t requests = 0;
    std::map<std::string, std::uint64_t> outcomes;  // as the records say
    std::uint64_t whole_streams = 0;                // as callers saw
    std::uint64_t left = 0;                         // callers who went away
    std::uint64_t retries = 0;
    std::uint64_t failovers = 0;
    std::uint64_t faults = 0;
    std::uint64_t reloads = 0;
    int level_max = 0;
    std::vector<std::string> violations;  // at most 20
    std::uint64_t digest = 0;             // of all bytes that callers got
  };

  explicit ByteWorld(Options options);
  ~ByteWorld();

  // Lives through the span and until the last request has ended.
  Report run();

 private:
  struct Engine;
  struct Caller;

  void at(Instant when, std::function<void()> what);
  void violation(std::string what);
  void arrive();
  void ask(Caller& caller);
  void leave(std::uint64_t number);
  void settle(Caller& caller);
  bool perform(Caller& caller, Effect& effect);
  void read_reply(Caller& caller);
  void check_reply(Caller& caller, bool closed);
  void wake_at(Caller& caller);

  Engine* engine_named(const std::string& address);
  void serve(Caller& caller);
  void begin_serving(Caller& caller, Engine& engine, const std::string& body);
  void to_caller(Caller& caller, const std::string& bytes);
  void hang_up(Caller& caller);
  void step(Engine& engine);
  void plan_step(Engine& engine);
  void scrape(Engine& engine);
  void fault();
  void die(Engine& engine);
  void reload();
  void tick();
  void finish();

  struct Event {
    Instant at;
    std::uint64_t order = 0;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return std::pair(other.at, other.order) < std::pair(at, order);
    }
  };

  Options options_;
  Rng rng_;
  Instant now_{std::chrono::seconds(1)};
  Instant end_;
  std::priority_queue<Event> events_;
  std::uint64_t orders_ = 0;
  Services services_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::map<std::uint64_t, std::unique_ptr<Caller>> callers_;
  std::uint64_t numbers_ = 0;
  std::set<std::uint64_t> ended_;  // requests whose record has come
  Report report_;
};

}  // namespace spillway
