#pragma once
// The Prometheus text format, both ways. The reader is tolerant: a line that it can not read is
// counted and skipped, since one odd line must not blind the gateway to a whole page. Pure; anybody
// may use it. https://prometheus.io/docs/instrumenting/exposition_formats/

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway {

using Labels = std::vector<std::pair<std::string, std::string>>;

struct PrometheusSample {
  std::string name;
  Labels labels;
  double value = 0;

  // The label's value; empty when absent.
  std::string_view label(std::string_view key) const;
};

struct PrometheusPage {
  std::vector<PrometheusSample> samples;
  int unreadable_lines = 0;

  // The first sample of this name; null when there is none.
  const PrometheusSample* first(std::string_view name) const;
};

// Bound: 1 million samples; the rest is counted as unreadable.
PrometheusPage parse_prometheus_text(std::string_view text);

// Writes a page. Call family() before its samples.
class PrometheusWriter {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help);
  void sample(std::string_view name, const Labels& labels, double value);
  // `counts[i]`: observations in (bounds[i-1], bounds[i]]; the last count is of those above all
  // bounds. REQUIRES: counts.size() == bounds.size() + 1.
  void histogram(std::string_view name, const Labels& labels, std::span<const double> bounds,
                 std::span<const std::uint64_t> counts, double sum);

  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace spillway
