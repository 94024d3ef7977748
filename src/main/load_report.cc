#include "main/load_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace spillway {

void LoadReport::add(const LoadResult& result) {
  for (Row* row : {&all, &classes[index_of(result.qos_class)]}) {
    ++row->sent;
    row->tokens += result.tokens;
    row->degraded += result.degraded ? 1 : 0;
    if (result.ok) {
      ++row->ok;
      row->within_slo += result.ttft >= 0 && result.ttft <= slo_seconds ? 1 : 0;
    } else {
      ++(result.error == "429" ? row->refused : row->failed);
      ++row->errors[result.error];
    }
    if (result.ttft >= 0) {
      row->ttft.push_back(result.ttft);
    }
    row->gaps.insert(row->gaps.end(), result.gaps.begin(), result.gaps.end());
  }
  if (!result.level.empty()) {
    ++levels[result.level];
  }
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) {
    return 0;
  }
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string line(const std::string& name, const LoadReport::Row& r, double seconds) {
  return fmt::format(
      "{:<9}{:>6}{:>7}{:>9}{:>8}{:>10}{:>9.2f}{:>9.2f}{:>9.2f}{:>10.0f}{:>9.0f}{:>9.1f}%{:>10.1f}"
      "\n",
      name, r.sent, r.ok, r.refused, r.failed, r.degraded, quantile(r.ttft, .5),
      quantile(r.ttft, .95), quantile(r.ttft, .99), quantile(r.gaps, .5) * 1000,
      quantile(r.gaps, .95) * 1000, share(r.within_slo, r.sent) * 100,
      static_cast<double>(r.tokens) / seconds);
}

nlohmann::ordered_json row_json(const LoadReport::Row& r, double seconds) {
  return {{"sent", r.sent},
          {"ok", r.ok},
          {"refused", r.refused},
          {"failed", r.failed},
          {"degraded", r.degraded},
          {"errors", r.errors},
          {"ttft_seconds",
           {{"p50", quantile(r.ttft, .5)},
            {"p95", quantile(r.ttft, .95)},
            {"p99", quantile(r.ttft, .99)},
            {"max", quantile(r.ttft, 1)}}},
          {"gap_seconds",
           {{"p50", quantile(r.gaps, .5)},
            {"p95", quantile(r.gaps, .95)},
            {"p99", quantile(r.gaps, .99)}}},
          {"share_within_slo", share(r.within_slo, r.sent)},
          {"tokens", r.tokens},
          {"tokens_per_second", static_cast<double>(r.tokens) / seconds}};
}

}  // namespace

std::string to_table(const LoadReport& report) {
  std::string out =
      fmt::format("{:<9}{:>6}{:>7}{:>9}{:>8}{:>10}{:>9}{:>9}{:>9}{:>10}{:>9}{:>10}{:>10}\n",
                  "class", "sent", "ok", "refused", "failed", "degraded", "TTFT p50", "p95", "p99",
                  "gap p50", "p95", "in SLO", "tokens/s");
  out += fmt::format("{:<9}{:>40}{:>9}{:>9}{:>9}{:>10}{:>9}{:>10}\n", "", "", "s", "s", "s", "ms",
                     "ms", "of sent");
  for (const QosClass c : kQosClasses) {
    out += line(std::string(name_of(c)), report.classes[index_of(c)], report.seconds);
  }
  out += line("all", report.all, report.seconds);
  for (const auto& [error, count] : report.all.errors) {
    out += fmt::format("error {}: {}\n", error, count);
  }
  for (const auto& [level, count] : report.levels) {
    out += fmt::format("answered at level {}: {}\n", level, count);
  }
  if (report.prompts_clamped + report.outputs_clamped > 0) {
    out += fmt::format("lengths clamped: {} prompts, {} replies\n", report.prompts_clamped,
                       report.outputs_clamped);
  }
  if (report.unsent > 0) {
    out += fmt::format("never sent, too many were open: {}\n", report.unsent);
  }
  return out;
}

std::string to_json(const LoadReport& report) {
  nlohmann::ordered_json classes;
  for (const QosClass c : kQosClasses) {
    classes[std::string(name_of(c))] = row_json(report.classes[index_of(c)], report.seconds);
  }
  const nlohmann::ordered_json json{{"seconds", report.seconds},
                                    {"slo_seconds", report.slo_seconds},
                                    {"all", row_json(report.all, report.seconds)},
                                    {"classes", classes},
                                    {"levels", report.levels},
                                    {"prompts_clamped", report.prompts_clamped},
                                    {"outputs_clamped", report.outputs_clamped},
                                    {"unsent", report.unsent}};
  return json.dump(2) + "\n";
}

}  // namespace spillway
