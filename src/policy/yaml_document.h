#pragma once
// A YAML file as a tree of our own, each key with its line. Stricter than YAML: duplicate keys,
// anchors, aliases, merge keys, tags and second documents are refused, because readers differ on
// them. Library exceptions end here. Pure; bounds: 1 MiB, 32 levels.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "policy/findings.h"

namespace spillway {

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  int line = 0;
  bool quoted = false;  // a scalar in quotes
  std::string scalar;
  std::vector<YamlNode> items;
  std::vector<YamlEntry> entries;
};

struct YamlKey {
  std::string name;
  int line = 0;
};

struct YamlEntry {
  YamlKey key;
  YamlNode value;
};

// "a mapping", "a list", "text", "nothing": for messages.
std::string_view name_of(YamlNode::Kind kind);

// Problems go to `findings`; the tree is as whole as could be read.
YamlNode parse_yaml(std::string_view text, std::string_view file_name,
                    std::vector<Finding>& findings);

}  // namespace spillway
