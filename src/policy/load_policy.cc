#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "policy/map_reader.h"
#include "policy/policy.h"
#include "policy/units.h"
#include "policy/yaml_document.h"

namespace spillway {
namespace {

using Need = MapReader::Need;
using Kind = YamlNode::Kind;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::int64_t kTokensMax = 10'000'000;

void read_action(Reading& reading, const YamlNode& node, const std::string& path, Rung& rung) {
  MapReader action(reading, node, path);
  if (node.kind == Kind::kMap && node.entries.size() != 1) {
    action.problem(node.line, "", fmt::format("an action has {} keys", node.entries.size()),
                   "write one action an item: - budget: {...}");
  }
  if (const YamlNode* body = action.child("budget", Kind::kMap)) {
    BudgetRule rule{.line = action.line_of("budget")};
    MapReader keys(reading, *body, path + ".budget");
    keys.flag("hard", rule.hard);
    keys.tokens("max_tokens", rule.max_tokens, {1, kTokensMax}, Need::kRequired);
    keys.classes("classes", rule.classes);
    rung.actions.emplace_back(rule);
  }
  if (const YamlNode* body = action.child("truncate", Kind::kMap)) {
    TruncateRule rule{.line = action.line_of("truncate")};
    MapReader keys(reading, *body, path + ".truncate");
    keys.tokens("prompt", rule.prompt_tokens, {1, kTokensMax}, Need::kRequired);
    keys.classes("classes", rule.classes);
    rung.actions.emplace_back(rule);
  }
  if (const YamlNode* body = action.child("shed", Kind::kMap)) {
    ShedRule rule{.retry_after = seconds(5), .line = action.line_of("shed")};
    MapReader keys(reading, *body, path + ".shed");
    keys.duration("retry_after", rule.retry_after, {milliseconds(100), hours(1)});
    keys.classes("classes", rule.classes);
    if (rule.classes.test(index_of(QosClass::kCritical))) {
      keys.warning(keys.line_of("classes"), "classes",
                   "critical requests are refused at this level", "shed high and normal only");
    }
    rung.actions.emplace_back(rule);
  }
}

void read_when(Reading& reading, const YamlNode& node, const std::string& path, Rung& rung) {
  MapReader when(reading, node, path);
  const std::size_t errors = reading.errors.size();
  when.share("pressure", rung.enter, {0.01, 10}, Need::kRequired);
  when.share("hysteresis", rung.hysteresis, {0.01, 5}, Need::kRequired);
  if (reading.errors.size() == errors && rung.hysteresis >= rung.enter) {
    when.problem(when.line_of("hysteresis"), "hysteresis",
                 fmt::format("{:g}% is not less than the pressure of {:g}%", rung.hysteresis * 100,
                             rung.enter * 100),
                 "the level could never be left; give about 15%");
  }
}

void read_rung(Reading& reading, const YamlNode& node, std::size_t index, Policy& policy) {
  const std::string path = fmt::format("spec.ladder[{}]", index);
  MapReader reader(reading, node, path);
  Rung rung{.line = std::max(node.line, 1)};
  int level = 0;
  reader.count("level", level, {1, static_cast<int>(kRungsMax)}, Need::kRequired);
  if (level != 0 && level != static_cast<int>(index) + 1) {
    reader.problem(reader.line_of("level"), "level",
                   fmt::format("level {} stands in place {}", level, index + 1),
                   "levels go 1, 2, 3 … without a gap");
  }
  reader.text("name", rung.name, Need::kRequired);
  if (const YamlNode* when = reader.child("when", Kind::kMap, Need::kRequired)) {
    read_when(reading, *when, path + ".when", rung);
  }
  if (!policy.rungs.empty() && rung.enter > 0 && rung.enter < policy.rungs.back().enter) {
    reader.problem(reader.line_of("when"), "when.pressure",
                   fmt::format("{:g}% is less than the {:g}% of the level below", rung.enter * 100,
                               policy.rungs.back().enter * 100),
                   "a higher level needs at least the pressure of the lower one");
  }
  if (const YamlNode* actions = reader.child("actions", Kind::kList, Need::kRequired)) {
    for (std::size_t i = 0; i < actions->items.size(); ++i) {
      read_action(reading, actions->items[i], fmt::format("{}.actions[{}]", path, i), rung);
    }
    if (actions->items.empty()) {
      reader.problem(reader.line_of("actions"), "actions", "is an empty list",
                     "a level without actions degrades nothing; name budget, truncate or shed");
    }
  }
  policy.rungs.push_back(std::move(rung));
}

void read_spec(Reading& reading, const YamlNode& node, Policy& policy) {
  MapReader spec(reading, node, "spec");
  if (const YamlNode* body = spec.child("pressure", Kind::kMap)) {
    MapReader pressure(reading, *body, "spec.pressure");
    pressure.duration("window", policy.pressure.window, {seconds(1), minutes(10)});
    pressure.duration("drain", policy.pressure.drain, {seconds(1), minutes(10)});
    pressure.share("kv_boundary", policy.pressure.kv_boundary, {0.1, 1});
  }
  if (const YamlNode* body = spec.child("dwell", Kind::kMap)) {
    MapReader dwell(reading, *body, "spec.dwell");
    dwell.duration("up", policy.dwell_up, {milliseconds(100), hours(1)});
    dwell.duration("down", policy.dwell_down, {milliseconds(100), hours(1)});
    if (policy.dwell_down < policy.dwell_up) {
      dwell.warning(dwell.line_of("down"), "down", "the way down is quicker than the way up",
                    "a ladder climbs fast and descends slowly");
    }
  }
  for (const char* later : {"lifecycle", "rollout"}) {
    if (spec.has(later)) {
      spec.child(later, Kind::kMap);
      spec.problem(spec.line_of(later), later, "is not supported by this version",
                   "remove the key; versions and canaries of policies come later");
    }
  }
  const YamlNode* ladder = spec.child("ladder", Kind::kList, Need::kRequired);
  if (ladder == nullptr) {
    return;
  }
  if (ladder->items.size() > kRungsMax) {
    spec.problem(spec.line_of("ladder"), "ladder",
                 fmt::format("has {} levels", ladder->items.size()),
                 fmt::format("at most {} are possible", kRungsMax));
    return;
  }
  for (std::size_t i = 0; i < ladder->items.size(); ++i) {
    read_rung(reading, ladder->items[i], i, policy);
  }
}

void expect(MapReader& reader, std::string_view key, std::string_view value) {
  std::string found;
  reader.text(key, found, Need::kRequired);
  if (!found.empty() && found != value) {
    reader.problem(reader.line_of(key), key, fmt::format("is \"{}\"", found),
                   fmt::format("this version reads \"{}\"", value));
  }
}

}  // namespace

Result<Policy> load_policy(std::string_view text, std::string_view file_name,
                           std::vector<Finding>* warnings) {
  std::vector<Finding> errors;
  Policy policy{.source = std::string(file_name)};
  const YamlNode document = parse_yaml(text, file_name, errors);
  if (!errors.empty()) {
    return to_error(errors);
  }
  Reading reading{std::string(file_name), errors, warnings};
  {
    MapReader root(reading, document, "");
    expect(root, "apiVersion", "spillway.dev/v1");
    expect(root, "kind", "DegradationPolicy");
    if (const YamlNode* body = root.child("metadata", Kind::kMap, Need::kRequired)) {
      MapReader metadata(reading, *body, "metadata");
      metadata.text("name", policy.name, Need::kRequired);
      metadata.text("version", policy.version, Need::kRequired);
    }
    if (const YamlNode* body = root.child("spec", Kind::kMap, Need::kRequired)) {
      read_spec(reading, *body, policy);
    }
  }
  if (!errors.empty()) {
    return to_error(errors);
  }
  return policy;
}

}  // namespace spillway
