#include "wire/prometheus_text.h"

#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace spillway {
namespace {

constexpr std::size_t kSamplesMax = 1'000'000;

void skip_blanks(std::string_view& s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) {
    s.remove_prefix(1);
  }
}

constexpr bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == ':';
}

std::string_view take_name(std::string_view& s) {
  std::size_t end = 0;
  while (end < s.size() && is_name_char(s[end])) {
    ++end;
  }
  const std::string_view name = s.substr(0, end);
  s.remove_prefix(end);
  return name;
}

// A quoted value with \\, \" and \n; false when it does not end.
bool take_quoted(std::string_view& s, std::string& out) {
  if (!s.starts_with('"')) {
    return false;
  }
  s.remove_prefix(1);
  while (!s.empty()) {
    const char c = s.front();
    s.remove_prefix(1);
    if (c == '"') {
      return true;
    }
    if (c == '\\' && !s.empty()) {
      const char escaped = s.front();
      s.remove_prefix(1);
      if (escaped == 'n') {
        out.push_back('\n');
      } else if (escaped == '\\' || escaped == '"') {
        out.push_back(escaped);
      } else {
        out.push_back('\\');
        out.push_back(escaped);
      }
      continue;
    }
    out.push_back(c);
  }
  return false;
}

bool take_labels(std::string_view& s, PrometheusSample& sample) {
  s.remove_prefix(1);
  while (true) {
    skip_blanks(s);
    if (s.starts_with('}')) {
      s.remove_prefix(1);
      return true;
    }
    std::string quoted;
    if (s.starts_with('"')) {  // a name that is not an identifier stands in quotes (Prometheus 3)
      if (!take_quoted(s, quoted)) {
        return false;
      }
      skip_blanks(s);
      if (!s.starts_with('=')) {
        sample.name = quoted;
        if (s.starts_with(',')) {
          s.remove_prefix(1);
        }
        continue;
      }
    } else {
      quoted = take_name(s);
      skip_blanks(s);
    }
    if (quoted.empty() || !s.starts_with('=')) {
      return false;
    }
    s.remove_prefix(1);
    skip_blanks(s);
    std::string value;
    if (!take_quoted(s, value)) {
      return false;
    }
    sample.labels.emplace_back(std::move(quoted), std::move(value));
    skip_blanks(s);
    if (s.starts_with(',')) {
      s.remove_prefix(1);
    }
  }
}

std::optional<double> parse_value(std::string_view word) {
  const bool negative = word.starts_with('-');
  if (word.starts_with('+') || negative) {
    word.remove_prefix(1);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || end != word.data() + word.size() || error == std::errc::invalid_argument) {
    return std::nullopt;
  }
  if (error == std::errc::result_out_of_range) {
    value = std::numeric_limits<double>::infinity();
  }
  return negative ? -value : value;
}

// name{labels} value [timestamp] [# exemplar]
std::optional<PrometheusSample> parse_line(std::string_view line) {
  PrometheusSample sample;
  skip_blanks(line);
  sample.name = take_name(line);
  skip_blanks(line);
  if (line.starts_with('{') && !take_labels(line, sample)) {
    return std::nullopt;
  }
  if (sample.name.empty()) {
    return std::nullopt;
  }
  skip_blanks(line);
  const auto value = parse_value(line.substr(0, line.find_first_of(" \t")));
  if (!value) {
    return std::nullopt;
  }
  sample.value = *value;
  return sample;
}

void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
}

std::string number(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "+Inf" : "-Inf";
  }
  return fmt::format("{}", value);
}

}  // namespace

std::string_view PrometheusSample::label(std::string_view key) const {
  for (const auto& [label_name, text] : labels) {
    if (label_name == key) {
      return text;
    }
  }
  return {};
}

const PrometheusSample* PrometheusPage::first(std::string_view name) const {
  for (const PrometheusSample& sample : samples) {
    if (sample.name == name) {
      return &sample;
    }
  }
  return nullptr;
}

PrometheusPage parse_prometheus_text(std::string_view text) {
  PrometheusPage page;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    skip_blanks(line);
    if (line.empty() || line.front() == '#') {
      continue;
    }
    auto sample = parse_line(line);
    if (sample && page.samples.size() < kSamplesMax) {
      page.samples.push_back(*std::move(sample));
    } else {
      ++page.unreadable_lines;
    }
  }
  return page;
}

void PrometheusWriter::family(std::string_view name, std::string_view type, std::string_view help) {
  text_.append("# HELP ").append(name).append(" ");
  append_escaped(text_, help, false);
  text_.append("\n# TYPE ").append(name).append(" ").append(type).append("\n");
}

void PrometheusWriter::sample(std::string_view name, const Labels& labels, double value) {
  text_.append(name);
  if (!labels.empty()) {
    char before = '{';
    for (const auto& [key, text] : labels) {
      text_ += before;
      text_.append(key).append("=\"");
      append_escaped(text_, text, true);
      text_ += '"';
      before = ',';
    }
    text_ += '}';
  }
  text_.append(" ").append(number(value)).append("\n");
}

void PrometheusWriter::histogram(std::string_view name, const Labels& labels,
                                 std::span<const double> bounds,
                                 std::span<const std::uint64_t> counts, double sum) {
  const std::string bucket = std::string(name) + "_bucket";
  std::uint64_t below = 0;
  for (std::size_t i = 0; i <= bounds.size(); ++i) {
    below += counts[i];
    Labels with_bound = labels;
    with_bound.emplace_back("le", i < bounds.size() ? number(bounds[i]) : "+Inf");
    sample(bucket, with_bound, static_cast<double>(below));
  }
  sample(std::string(name) + "_sum", labels, sum);
  sample(std::string(name) + "_count", labels, static_cast<double>(below));
}

}  // namespace spillway
