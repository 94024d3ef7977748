#include "decision/request_plan.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace spillway {
namespace {

struct Apply {
  const RequestFacts& facts;
  RequestPlan& plan;

  bool concerns(const QosClassSet& classes) const {
    return classes.test(index_of(facts.qos_class));
  }

  void note(const std::string& action) const {
    plan.actions += plan.actions.empty() ? action : " " + action;
  }

  void operator()(const BudgetRule& rule) const {
    if (!concerns(rule.classes)) {
      return;
    }
    const std::optional<std::int64_t> asked = plan.max_tokens ? plan.max_tokens : facts.max_tokens;
    if (asked && *asked <= rule.max_tokens) {
      return;
    }
    plan.max_tokens = rule.max_tokens;
    note(fmt::format("budget={}", rule.max_tokens));
  }

  void operator()(const TruncateRule& rule) const {
    if (!concerns(rule.classes) || facts.messages.empty() ||
        plan.prompt_tokens <= rule.prompt_tokens) {
      return;
    }
    std::vector<std::size_t> dropped =
        choose_dropped({.messages = facts.messages, .budget = rule.prompt_tokens});
    if (dropped.empty()) {
      return;  // nothing may go: the engine decides about the rest
    }
    const std::int64_t before = facts.prompt_tokens;
    std::int64_t after = before;
    for (const std::size_t i : dropped) {
      after -= facts.messages[i].tokens;
    }
    plan.dropped_messages = std::move(dropped);
    plan.prompt_tokens = std::max<std::int64_t>(after, 0);
    note(fmt::format("truncate={}>{}", before, plan.prompt_tokens));
  }

  void operator()(const ShedRule& rule) const {
    if (!concerns(rule.classes)) {
      return;
    }
    plan.shed = true;
    plan.retry_after = rule.retry_after;
    note("shed");
  }
};

}  // namespace

RequestPlan plan_request(const RequestFacts& facts, const Rung* rung) {
  RequestPlan plan{.prompt_tokens = facts.prompt_tokens};
  if (rung != nullptr) {
    for (const ActionRule& rule : rung->actions) {
      std::visit(Apply{facts, plan}, rule);
    }
  }
  return plan;
}

}  // namespace spillway
