#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "policy/policy.h"

namespace spillway {
namespace {

constexpr std::string_view kGood = R"(apiVersion: spillway.dev/v1
kind: DegradationPolicy
metadata: {name: chat, version: 1.0.0}
spec:
  pressure: {window: 10s, kv_boundary: 95%}
  dwell: {up: 2s, down: 30s}
  ladder:
    - level: 1
      name: shorter replies
      when: {pressure: 85%, hysteresis: 15%}
      actions:
        - budget: {max_tokens: 128 tokens, classes: [high, normal]}
    - level: 2
      name: shed
      when: {pressure: 95%, hysteresis: 15%}
      actions:
        - budget: {max_tokens: 64 tokens, classes: [high, normal]}
        - truncate: {prompt: 1024 tokens, classes: [normal]}
        - shed: {classes: [normal], retry_after: 5s}
)";

// The good policy with one piece of text replaced.
std::string changed(std::string_view from, std::string_view to) {
  std::string text(kGood);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(LoadPolicy, ReadsEveryKey) {
  const auto policy = load_policy(kGood, "p.yaml");

  ASSERT_TRUE(policy.ok()) << policy.error().message;
  EXPECT_EQ(policy->name, "chat");
  EXPECT_EQ(policy->version, "1.0.0");
  EXPECT_EQ(policy->pressure.window, std::chrono::seconds(10));
  EXPECT_EQ(policy->dwell_down, std::chrono::seconds(30));
  ASSERT_EQ(policy->rungs.size(), 2U);
  EXPECT_DOUBLE_EQ(policy->rungs[1].enter, 0.95);
  ASSERT_EQ(policy->rungs[1].actions.size(), 3U);
  const auto& budget = std::get<BudgetRule>(policy->rungs[0].actions[0]);
  EXPECT_EQ(budget.max_tokens, 128);
  EXPECT_FALSE(budget.classes.test(index_of(QosClass::kCritical)));
  EXPECT_TRUE(budget.classes.test(index_of(QosClass::kNormal)));
  EXPECT_EQ(budget.line, 12);
}

TEST(LoadPolicy, NamesFileLineKeyFaultAndRemedyOfEveryMistake) {
  struct Case {
    const char* name;
    std::string text;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"unknown key", changed("dwell:", "dwel:"),
       "p.yaml:6: spec.dwel: there is no such key; did you mean \"dwell\"?"},
      {"no unit", changed("window: 10s", "window: 10"),
       "p.yaml:5: spec.pressure.window: \"10\" is not a duration; give a number with its unit, "
       "such as 500ms, "
       "30s or 2m"},
      {"wrong unit", changed("max_tokens: 128 tokens", "max_tokens: 128s"),
       "p.yaml:12: spec.ladder[0].actions[0].budget.max_tokens: \"128s\" is not a number of "
       "tokens; give a number "
       "with its unit, such as 512 tokens"},
      {"share without unit", changed("pressure: 85%", "pressure: 0.85"),
       "p.yaml:10: spec.ladder[0].when.pressure: \"0.85\" is not a share; give a number with its "
       "unit, such as 85%"},
      {"out of range", changed("kv_boundary: 95%", "kv_boundary: 140%"),
       "p.yaml:5: spec.pressure.kv_boundary: 140% is out of range; give 10% to 100%"},
      {"duplicate key", changed("  dwell: {up: 2s, down: 30s}", "  pressure: {window: 5s}"),
       "p.yaml:6: the key \"pressure\" appears twice in this mapping, first on line 5; keep one of "
       "them"},
      {"hysteresis beyond the pressure", changed("hysteresis: 15%", "hysteresis: 90%"),
       "p.yaml:10: spec.ladder[0].when.hysteresis: 90% is not less than the pressure of 85%; the "
       "level could never "
       "be left; give about 15%"},
      {"levels out of order", changed("level: 2", "level: 3"),
       "p.yaml:13: spec.ladder[1].level: level 3 stands in place 2; levels go 1, 2, 3 … without a "
       "gap"},
      {"falling thresholds", changed("pressure: 95%", "pressure: 50%"),
       "p.yaml:15: spec.ladder[1].when.pressure: 50% is less than the 85% of the level below; a "
       "higher level needs "
       "at least the pressure of the lower one"},
      {"unknown class", changed("classes: [high, normal]", "classes: [hihg]"),
       "p.yaml:12: spec.ladder[0].actions[0].budget.classes: there is no class \"hihg\"; name "
       "critical, high or "
       "normal"},
      {"class twice", changed("classes: [high, normal]", "classes: [high, high]"),
       "p.yaml:12: spec.ladder[0].actions[0].budget.classes: \"high\" is named twice; name it "
       "once"},
      {"unknown action", changed("budget:", "budgte:"),
       "p.yaml:12: spec.ladder[0].actions[0].budgte: there is no such key; did you mean "
       "\"budget\"?"},
      {"zero budget", changed("max_tokens: 128 tokens", "max_tokens: 0 tokens"),
       "p.yaml:12: spec.ladder[0].actions[0].budget.max_tokens: 0 tokens is out of range; give 1 "
       "tokens "
       "to 10000000 "
       "tokens"},
      {"missing key", changed("name: shed\n", "\n"),
       "p.yaml:13: spec.ladder[1].name: is missing; add it"},
      {"wrong version", changed("spillway.dev/v1", "spillway.dev/v9"),
       "p.yaml:1: apiVersion: is \"spillway.dev/v9\"; this version reads \"spillway.dev/v1\""},
      {"wrong kind", changed("DegradationPolicy", "Policy"),
       "p.yaml:2: kind: is \"Policy\"; this version reads \"DegradationPolicy\""},
      {"lifecycle", changed("  dwell: {up: 2s, down: 30s}", "  lifecycle: {phase: GA}"),
       "p.yaml:6: spec.lifecycle: is not supported by this version; remove the key; versions and "
       "canaries of "
       "policies come later"},
      {"true as a name", changed("name: shed", "name: true"),
       "p.yaml:14: spec.ladder[1].name: true is not text; write \"true\""},
      {"value missing", changed("window: 10s", "window:"),
       "p.yaml:5: spec.pressure.window: is nothing; it must be text"},
      {"list for a mapping", changed("dwell: {up: 2s, down: 30s}", "dwell: [2s]"),
       "p.yaml:6: spec.dwell: is a list; it must be a mapping"},
      {"merge key", changed("up: 2s", "<<: {up: 2s}"),
       "p.yaml:6: a merge key (<<) is used here; write the keys out"},
      {"anchor", changed("dwell: {", "dwell: &d {"),
       "p.yaml:6: an anchor (&name) is used here; write the value out where it is needed"},
      {"sexagesimal", changed("down: 30s", "down: 1:30"),
       "p.yaml:6: spec.dwell.down: \"1:30\" is not a duration; give a number with its unit, such "
       "as 500ms, 30s or 2m"},
      {"octal look", changed("down: 30s", "down: 030s"),
       "p.yaml:6: spec.dwell.down: \"030s\" is not a duration; give a number with its unit, such "
       "as 500ms, 30s or 2m"},
      {"empty actions",
       changed("actions:\n        - budget: {max_tokens: 128 tokens, classes: [high, normal]}",
               "actions: []"),
       "p.yaml:11: spec.ladder[0].actions: is an empty list; a level without actions degrades "
       "nothing; name budget, "
       "truncate or shed"},
  };

  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const auto policy = load_policy(c.text, "p.yaml");

    ASSERT_FALSE(policy.ok());
    EXPECT_EQ(policy.error().message.substr(0, policy.error().message.find('\n')), c.message);
  }
}

TEST(LoadPolicy, ReportsAllMistakesAtOnce) {
  std::string text = changed("window: 10s", "window: 10");
  text.replace(text.find("up: 2s"), 6, "up: 2 ");

  const auto policy = load_policy(text, "p.yaml");

  ASSERT_FALSE(policy.ok());
  EXPECT_NE(policy.error().message.find("spec.pressure.window"), std::string::npos);
  EXPECT_NE(policy.error().message.find("spec.dwell.up"), std::string::npos);
}

TEST(LoadPolicy, WarnsWhenCriticalIsShed) {
  std::vector<Finding> warnings;

  const auto policy = load_policy(changed("shed: {classes: [normal]", "shed: {classes: [critical]"),
                                  "p.yaml", &warnings);

  ASSERT_TRUE(policy.ok());
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].path, "spec.ladder[1].actions[2].shed.classes");
}

TEST(LoadPolicy, SurvivesRandomDamage) {
  Rng rng(20261201);
  for (int round = 0; round < 3000; ++round) {
    std::string text(kGood);
    for (std::uint64_t edits = 1 + rng.below(4); edits > 0; --edits) {
      const std::size_t at = rng.below(text.size());
      switch (rng.below(3)) {
        case 0:
          text[at] = static_cast<char>(rng.below(256));
          break;
        case 1:
          text.erase(at, 1 + rng.below(20));
          break;
        default:
          text.insert(at, text.substr(rng.below(text.size()), rng.below(30)));
      }
    }
    const auto policy = load_policy(text, "p.yaml");
    EXPECT_TRUE(policy.ok() || !policy.error().message.empty());
  }
}

TEST(LoadPolicy, RefusesWhatIsNoYaml) {
  for (const char* text : {"", "{", "a: b: c", "\t- x", "- a\n- b\n", "plain"}) {
    SCOPED_TRACE(text);
    const auto policy = load_policy(text, "p.yaml");

    ASSERT_FALSE(policy.ok());
    EXPECT_TRUE(policy.error().message.starts_with("p.yaml:")) << policy.error().message;
  }
}

}  // namespace
}  // namespace spillway
