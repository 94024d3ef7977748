#pragma once
// The degradation policy as types: which pressure leads to which level, and what each level does.
// Immutable once loaded and shared between threads as shared_ptr<const Policy>. The YAML form is in
// docs/configuration.md.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/time.h"
#include "policy/findings.h"
#include "policy/qos_class.h"

namespace spillway {

// Actions of a rung. Each concerns the classes it names; `line` is where the policy file says so.

// Lowers the reply budget to at most this many tokens.
struct BudgetRule {
  std::int64_t max_tokens = 0;
  QosClassSet classes;
  bool hard = false;  // streams that run already are ended at it too
  int line = 0;
};

// Shortens the context to at most this many prompt tokens, oldest rounds first.
struct TruncateRule {
  std::int64_t prompt_tokens = 0;
  QosClassSet classes;
  int line = 0;
};

// Refuses with 429; callers are asked to come back after about this time.
struct ShedRule {
  QosClassSet classes;
  Duration retry_after{};
  int line = 0;
};

using ActionRule = std::variant<BudgetRule, TruncateRule, ShedRule>;

// Level k is rung k; level 0 has no rung. A rung lists all of its actions, not only what it adds.
struct Rung {
  std::string name;
  double enter = 0;  // demand pressure, priced at the level below, from which this rung is taken
  double hysteresis = 0;  // it is left below enter - hysteresis
  std::vector<ActionRule> actions;
  int line = 0;
};

constexpr std::size_t kRungsMax = 8;

struct PressureSettings {
  Duration window = std::chrono::seconds(30);  // over which demand is averaged: longer is calmer
  Duration drain =
      std::chrono::seconds(10);  // in which waiting work should be done: shorter is quicker
  double kv_boundary = 0.95;     // share of the KV cache that counts as full
};

struct Policy {
  std::string name = "none";
  std::string version = "0";
  std::string source;  // the file it came from
  PressureSettings pressure;
  Duration dwell_up =
      std::chrono::seconds(10);  // between two rungs upward, when the threshold is just reached
  Duration dwell_down = std::chrono::seconds(30);  // so long must the way down stay open
  std::vector<Rung> rungs;
};

// Reads a policy document. On failure the message holds every problem, one a line, each as
// `file:line: key.path: what is wrong; what would be right`. Warnings are added to `warnings` where
// given.
Result<Policy> load_policy(std::string_view text, std::string_view file_name,
                           std::vector<Finding>* warnings = nullptr);

}  // namespace spillway
