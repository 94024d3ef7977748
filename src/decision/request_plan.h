#pragma once
// What one level gives one request: the actions of the policy's rung applied to it, as a value.
// Actions only ever lower: a budget never exceeds what the caller asked for. Pure; anybody may call
// it.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy/policy.h"
#include "prompt/truncation.h"

namespace spillway {

// What admission knows of a request. Token counts are the gateway's own.
struct RequestFacts {
  QosClass qos_class = QosClass::kNormal;
  std::int64_t prompt_tokens = 0;
  std::optional<std::int64_t> max_tokens;  // as the caller asked; nothing: the engine's default
  std::vector<MessageShape> messages;      // empty where the prompt may not be cut
  bool generates = true;                   // false: embeddings and the like, no reply to shorten
  int retries = 0;                         // attempts that its class may be sent again
  std::uint64_t conversation = 0;          // hash of its beginning, for affinity; 0: none
};

struct RequestPlan {
  std::optional<std::int64_t>
      max_tokens;  // to be written into the request; nothing: leave it alone
  std::vector<std::size_t> dropped_messages;  // indexes into RequestFacts::messages, ascending
  std::int64_t prompt_tokens = 0;             // after the drop
  bool shed = false;
  Duration retry_after{};
  std::string actions;  // for x-spillway-actions: "budget=64 truncate=1834>1020"; empty when
                        // nothing is done
};

// REQUIRES: rung is null (level 0) or outlives the call.
RequestPlan plan_request(const RequestFacts& facts, const Rung* rung);

}  // namespace spillway
