#include "policy/yaml_document.h"

#include <map>
#include <sstream>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

namespace spillway {
namespace {

constexpr std::size_t kBytesMax = 1024 * 1024;
constexpr std::size_t kDepthMax = 32;
constexpr std::size_t kValuesMax = 100'000;
constexpr std::size_t kFindingsMax = 200;

// Builds the tree from the parser's events; yaml-cpp's own nodes lose duplicate keys and the keys'
// places.
class Builder : public YAML::EventHandler {
 public:
  Builder(std::string_view file, std::vector<Finding>& findings)
      : file_(file), findings_(findings) {}

  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) {
      report(mark, "a second document begins here", "keep one document a file");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node;
    node.line = mark.line + 1;
    add(mark, anchor, std::move(node), false);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    report(mark, "an alias (*name) is used here", "write the value out");
    YamlNode node;
    node.line = mark.line + 1;
    add(mark, 0, std::move(node), false);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node;
    node.kind = YamlNode::Kind::kScalar;
    node.line = mark.line + 1;
    node.quoted = tag == "!";
    node.scalar = value;
    if (!tag.empty() && tag != "!" && tag != "?") {
      report(mark, "the tag " + tag + " is used here", "remove it");
    }
    add(mark, anchor, std::move(node), false);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    std::map<std::string, int> names;  // with their lines
    YamlKey key;
    bool key_read = false;
  };

  void report(const YAML::Mark& mark, std::string problem, std::string remedy) {
    if (findings_.size() >= kFindingsMax) {
      throw YAML::ParserException(mark, "too many problems");
    }
    findings_.push_back({.file = std::string(file_),
                         .line = mark.line + 1,
                         .problem = std::move(problem),
                         .remedy = std::move(remedy)});
  }

  void open(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind) {
    if (anchor != 0) {
      report(mark, "an anchor (&name) is used here", "write the value out where it is needed");
    }
    if (stack_.size() >= kDepthMax) {
      throw YAML::ParserException(mark, "more than 32 levels deep");
    }
    stack_.push_back({});
    stack_.back().node.kind = kind;
    stack_.back().node.line = mark.line + 1;
  }

  void close() {
    YamlNode node = std::move(stack_.back().node);
    stack_.pop_back();
    YAML::Mark mark;
    mark.line = node.line - 1;
    add(mark, 0, std::move(node), true);
  }

  void add(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode node, bool collection) {
    if (anchor != 0) {
      report(mark, "an anchor (&name) is used here", "write the value out where it is needed");
    }
    // Also ends yaml-cpp 0.7's reading of texts on which it makes up empty values for ever.
    if (++values_ > kValuesMax) {
      throw YAML::ParserException(mark, "more than 100,000 values");
    }
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& open = stack_.back();
    if (open.node.kind == YamlNode::Kind::kList) {
      open.node.items.push_back(std::move(node));
    } else if (!open.key_read) {
      take_key(mark, node, collection);
    } else {
      open.key_read = false;
      open.node.entries.push_back({std::move(open.key), std::move(node)});
    }
  }

  void take_key(const YAML::Mark& mark, const YamlNode& node, bool collection) {
    Open& open = stack_.back();
    open.key_read = true;
    open.key = {node.scalar, node.line};
    if (collection || node.kind != YamlNode::Kind::kScalar) {
      report(mark, "a key must be text", "");
    } else if (node.scalar == "<<") {
      report(mark, "a merge key (<<) is used here", "write the keys out");
    } else if (const auto [first, is_new] = open.names.emplace(node.scalar, node.line); !is_new) {
      report(mark,
             "the key \"" + node.scalar + "\" appears twice in this mapping, first on line " +
                 std::to_string(first->second),
             "keep one of them");
    }
  }

  std::string_view file_;
  std::vector<Finding>& findings_;
  std::vector<Open> stack_;
  YamlNode root_;
  int documents_ = 0;
  std::size_t values_ = 0;
};

}  // namespace

std::string_view name_of(YamlNode::Kind kind) {
  switch (kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kScalar:
      return "text";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a mapping";
  }
  return "";
}

YamlNode parse_yaml(std::string_view text, std::string_view file_name,
                    std::vector<Finding>& findings) {
  const auto report = [&](int line, std::string problem, std::string remedy) {
    findings.push_back({.file = std::string(file_name),
                        .line = line,
                        .problem = std::move(problem),
                        .remedy = std::move(remedy)});
  };
  if (text.size() > kBytesMax) {
    report(1, "the file is larger than 1 MiB", "split it");
    return {};
  }
  if (text.find('\0') != std::string_view::npos) {
    report(1, "the file holds a NUL byte", "write it as UTF-8 text");
    return {};
  }
  Builder builder(file_name, findings);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& e) {
    report(e.mark.line + 1, "this is not YAML: " + e.msg, "");
  } catch (const std::exception& e) {
    report(1, std::string("this is not YAML: ") + e.what(), "");
  }
  return builder.take();
}

}  // namespace spillway
