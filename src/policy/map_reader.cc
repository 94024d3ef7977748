#include "policy/map_reader.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "policy/units.h"

namespace spillway {
namespace {

// Levenshtein's distance, for "did you mean".
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({change, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row[b.size()];
}

std::string seconds_text(Duration d) {
  return to_seconds(d) >= 1 || d.count() == 0 ? fmt::format("{:g}s", to_seconds(d))
                                              : fmt::format("{:g}ms", to_milliseconds(d));
}

}  // namespace

MapReader::MapReader(Reading& reading, const YamlNode& node, std::string path)
    : reading_(reading), node_(node), path_(std::move(path)) {
  if (node_.kind != YamlNode::Kind::kMap) {
    reading_.errors.push_back({.file = reading_.file,
                               .line = std::max(node_.line, 1),
                               .path = path_,
                               .problem = fmt::format("is {}", name_of(node_.kind)),
                               .remedy = "it must be a mapping of keys to values"});
  }
}

MapReader::~MapReader() {
  for (const auto& [key, value] : node_.entries) {
    if (known_.contains(key.name)) {
      continue;
    }
    std::string nearest;
    std::size_t best = std::max<std::size_t>(key.name.size() / 2, 2);
    std::string all;
    for (const std::string& known : known_) {
      all += (all.empty() ? "" : ", ") + known;
      if (const std::size_t d = distance(key.name, known); d < best) {
        best = d;
        nearest = known;
      }
    }
    problem(key.line, key.name, "there is no such key",
            nearest.empty() ? "known here: " + all : "did you mean \"" + nearest + "\"?");
  }
}

std::string MapReader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const YamlEntry* MapReader::find(std::string_view key) const {
  const auto it = std::find_if(node_.entries.begin(), node_.entries.end(),
                               [&](const auto& entry) { return entry.key.name == key; });
  return it == node_.entries.end() ? nullptr : &*it;
}

bool MapReader::has(std::string_view key) const {
  return find(key) != nullptr;
}

int MapReader::line_of(std::string_view key) const {
  const auto* entry = find(key);
  return entry == nullptr ? std::max(node_.line, 1) : entry->key.line;
}

void MapReader::problem(int line, std::string_view key, std::string problem, std::string remedy) {
  reading_.errors.push_back({.file = reading_.file,
                             .line = line,
                             .path = path_of(key),
                             .problem = std::move(problem),
                             .remedy = std::move(remedy)});
}

void MapReader::warning(int line, std::string_view key, std::string problem, std::string remedy) {
  if (reading_.warnings != nullptr) {
    reading_.warnings->push_back({.file = reading_.file,
                                  .line = line,
                                  .path = path_of(key),
                                  .problem = std::move(problem),
                                  .remedy = std::move(remedy)});
  }
}

void MapReader::missing(std::string_view key) {
  if (node_.kind == YamlNode::Kind::kMap) {
    problem(std::max(node_.line, 1), key, "is missing", "add it");
  }
}

const YamlNode* MapReader::child(std::string_view key, YamlNode::Kind kind, Need need) {
  known_.emplace(key);
  const auto* entry = find(key);
  if (entry == nullptr) {
    if (need == Need::kRequired) {
      missing(key);
    }
    return nullptr;
  }
  if (entry->value.kind != kind) {
    problem(entry->key.line, key, fmt::format("is {}", name_of(entry->value.kind)),
            fmt::format("it must be {}", name_of(kind)));
    return nullptr;
  }
  return &entry->value;
}

const YamlNode* MapReader::scalar(std::string_view key, Need need) {
  return child(key, YamlNode::Kind::kScalar, need);
}

void MapReader::text(std::string_view key, std::string& out, Need need) {
  const YamlNode* node = scalar(key, need);
  if (node == nullptr) {
    return;
  }
  if (node->scalar.empty()) {
    problem(line_of(key), key, "is empty", "give it a value, or remove the key");
    return;
  }
  // In YAML 1.2 no, off and on are text; these are not.
  static constexpr std::string_view kNoText[] = {"true", "false", "null", "~"};
  if (!node->quoted && std::ranges::find(kNoText, node->scalar) != std::end(kNoText)) {
    problem(line_of(key), key, fmt::format("{} is not text", node->scalar),
            fmt::format("write \"{}\"", node->scalar));
    return;
  }
  out = node->scalar;
}

void MapReader::flag(std::string_view key, bool& out) {
  const YamlNode* node = scalar(key);
  if (node == nullptr) {
    return;
  }
  if (node->quoted || (node->scalar != "true" && node->scalar != "false")) {
    problem(line_of(key), key, fmt::format("\"{}\" is neither true nor false", node->scalar),
            "write true or false");
    return;
  }
  out = node->scalar == "true";
}

// One shape for all quantities: parse, compare with the range, report in the file's own units.
template <class T>
void MapReader::quantity(std::string_view key, T& out, const Quantity<T>& q, Need need) {
  const YamlNode* node = scalar(key, need);
  if (node == nullptr) {
    return;
  }
  const std::optional<T> value = q.parse(node->scalar);
  if (!value) {
    problem(line_of(key), key, fmt::format("\"{}\" is not {}", node->scalar, q.what), q.example);
  } else if (*value < q.range.low || *value > q.range.high) {
    problem(line_of(key), key, fmt::format("{} is out of range", node->scalar),
            fmt::format("give {} to {}", q.show(q.range.low), q.show(q.range.high)));
  } else {
    out = *value;
  }
}

void MapReader::duration(std::string_view key, Duration& out, Range<Duration> range, Need need) {
  quantity<Duration>(key, out,
                     {.parse = parse_duration,
                      .what = "a duration",
                      .example = "give a number with its unit, such as 500ms, 30s or 2m",
                      .show = seconds_text,
                      .range = range},
                     need);
}

void MapReader::share(std::string_view key, double& out, Range<double> range, Need need) {
  quantity<double>(key, out,
                   {.parse = parse_share,
                    .what = "a share",
                    .example = "give a number with its unit, such as 85%",
                    .show = [](double x) { return fmt::format("{:g}%", x * 100); },
                    .range = range},
                   need);
}

void MapReader::tokens(std::string_view key, std::int64_t& out, Range<std::int64_t> range,
                       Need need) {
  quantity<std::int64_t>(key, out,
                         {.parse = parse_tokens,
                          .what = "a number of tokens",
                          .example = "give a number with its unit, such as 512 tokens",
                          .show = [](std::int64_t n) { return fmt::format("{} tokens", n); },
                          .range = range},
                         need);
}

void MapReader::bytes(std::string_view key, std::int64_t& out, Range<std::int64_t> range) {
  quantity<std::int64_t>(key, out,
                         {.parse = parse_bytes,
                          .what = "a size",
                          .example = "give a number with its unit, such as 32 KiB or 8 MiB",
                          .show = [](std::int64_t n) { return fmt::format("{} bytes", n); },
                          .range = range},
                         Need::kOptional);
}

void MapReader::count(std::string_view key, int& out, Range<int> range, Need need) {
  std::int64_t value = out;
  quantity<std::int64_t>(key, value,
                         {.parse = parse_count,
                          .what = "a count",
                          .example = "give a whole number without a unit, such as 256",
                          .show = [](std::int64_t n) { return fmt::format("{}", n); },
                          .range = {range.low, range.high}},
                         need);
  out = static_cast<int>(value);
}

void MapReader::number(std::string_view key, double& out, Range<double> range) {
  quantity<double>(key, out,
                   {.parse = parse_number,
                    .what = "a number",
                    .example = "give a number without a unit, such as 0.25",
                    .show = [](double x) { return fmt::format("{:g}", x); },
                    .range = range},
                   Need::kOptional);
}

void MapReader::token_rate(std::string_view key, double& out, Range<double> range) {
  quantity<double>(key, out,
                   {.parse = parse_token_rate,
                    .what = "a rate of tokens",
                    .example = "give auto, or a number with its unit, such as 250 tokens/s",
                    .show = [](double x) { return fmt::format("{:g} tokens/s", x); },
                    .range = range},
                   Need::kOptional);
}

void MapReader::classes(std::string_view key, QosClassSet& out) {
  std::vector<std::string> names;
  texts(key, names, Need::kRequired);
  for (const std::string& name : names) {
    const auto named = qos_class_named(name);
    if (!named) {
      problem(line_of(key), key, fmt::format("there is no class \"{}\"", name),
              "name critical, high or normal");
    } else if (out.test(index_of(*named))) {
      problem(line_of(key), key, fmt::format("\"{}\" is named twice", name), "name it once");
    } else {
      out.set(index_of(*named));
    }
  }
}

void MapReader::texts(std::string_view key, std::vector<std::string>& out, Need need) {
  const YamlNode* list = child(key, YamlNode::Kind::kList, need);
  if (list == nullptr) {
    return;
  }
  if (list->items.empty()) {
    problem(line_of(key), key, "is an empty list", "name at least one");
  }
  for (const YamlNode& item : list->items) {
    if (item.kind != YamlNode::Kind::kScalar || item.scalar.empty()) {
      problem(std::max(item.line, 1), key, fmt::format("holds {}", name_of(item.kind)),
              "every item must be text");
    } else {
      out.push_back(item.scalar);
    }
  }
}

}  // namespace spillway
