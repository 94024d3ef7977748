#pragma once
// Reads one YAML mapping key by key into typed fields. Every problem becomes a Finding with the
// key's line; what could not be read keeps its default. Keys that nobody asked for are reported
// with the nearest known name. Pure; lives for the reading of one mapping.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "policy/findings.h"
#include "policy/qos_class.h"
#include "policy/yaml_document.h"

namespace spillway {

// Where problems go, and the file's name for them.
struct Reading {
  std::string file;
  std::vector<Finding>& errors;
  std::vector<Finding>* warnings = nullptr;
};

class MapReader {
 public:
  enum class Need { kOptional, kRequired };
  template <class T>
  struct Range {
    T low;
    T high;
  };

  // `path` is empty for the document. A node that is no mapping is reported once and read as empty.
  MapReader(Reading& reading, const YamlNode& node, std::string path);
  // Reports the keys that were never asked for.
  ~MapReader();
  MapReader(const MapReader&) = delete;
  MapReader& operator=(const MapReader&) = delete;

  void text(std::string_view key, std::string& out, Need need = Need::kOptional);
  void flag(std::string_view key, bool& out);
  void duration(std::string_view key, Duration& out, Range<Duration> range,
                Need need = Need::kOptional);
  void share(std::string_view key, double& out, Range<double> range, Need need = Need::kOptional);
  void tokens(std::string_view key, std::int64_t& out, Range<std::int64_t> range,
              Need need = Need::kOptional);
  void bytes(std::string_view key, std::int64_t& out, Range<std::int64_t> range);
  void count(std::string_view key, int& out, Range<int> range, Need need = Need::kOptional);
  void number(std::string_view key, double& out, Range<double> range);
  void token_rate(std::string_view key, double& out, Range<double> range);
  void classes(std::string_view key, QosClassSet& out);
  void texts(std::string_view key, std::vector<std::string>& out, Need need = Need::kOptional);

  // The node itself, for nested mappings and lists; null when absent. It counts as asked for.
  const YamlNode* child(std::string_view key, YamlNode::Kind kind, Need need = Need::kOptional);
  // A plain value; null when absent or no text (which is reported).
  const YamlNode* scalar(std::string_view key, Need need = Need::kOptional);

  void problem(int line, std::string_view key, std::string problem, std::string remedy);
  void warning(int line, std::string_view key, std::string problem, std::string remedy);
  std::string path_of(std::string_view key) const;
  int line_of(std::string_view key) const;  // of the key, else of the mapping
  bool has(std::string_view key) const;

 private:
  template <class T>
  struct Quantity {
    std::optional<T> (*parse)(std::string_view);
    const char* what;     // "a duration"
    const char* example;  // what to write instead
    std::string (*show)(T);
    Range<T> range;
  };

  template <class T>
  void quantity(std::string_view key, T& out, const Quantity<T>& q, Need need);
  const YamlEntry* find(std::string_view key) const;
  void missing(std::string_view key);

  Reading& reading_;
  const YamlNode& node_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace spillway
