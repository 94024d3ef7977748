#pragma once
// What a session needs from the gateway: the configuration in force, the pools, randomness and the
// offset between the monotonic and the civil clock. One per gateway, owned by the data-path strand;
// outlives sessions.

#include <memory>
#include <string>

#include "base/rng.h"
#include "base/time.h"
#include "decision/pools.h"
#include "decision/quarantine.h"
#include "decision/retry_budget.h"
#include "policy/config.h"
#include "policy/policy.h"
#include "wire/openai_reply.h"
#include "wire/openai_request.h"

namespace spillway {

// One immutable version of the files. A request lives under the snapshot it began with.
struct Snapshot {
  Config config;
  std::shared_ptr<const Policy> policy;
};

struct Services {
  explicit Services(std::uint64_t seed) : pools(seed), rng(seed ^ 0x5eed) {}

  std::shared_ptr<const Snapshot> snapshot;  // never null once the gateway runs
  Pools pools;
  Rng rng;
  RetryBudget retry_budget;
  Quarantine quarantine;
  Instant bypass_until;  // until then: a plain proxy, without ladder, edits and retries
  OpenAiRequestParser request_parser;
  ReplyReader reply_reader;
  Instant monotonic_origin;  // these two were read at the same moment
  WallTime wall_origin;
  bool draining = false;  // readiness is false, connections end with their request

  WallTime wall_at(Instant now) const { return wall_origin + (now - monotonic_origin); }
};

}  // namespace spillway
