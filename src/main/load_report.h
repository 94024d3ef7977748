#pragma once
// What came of a load: counts, times and rates, per class and in all. Pure; samples are kept (one a
// request and one a token), so quantiles are exact.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "main/load_trace.h"

namespace spillway {

// How one request went. Times count from the moment it was due, whatever the backlog of the sender.
struct LoadResult {
  QosClass qos_class = QosClass::kNormal;
  bool ok = false;
  std::string error;        // "429", "connect", "cut", "timeout", "in-band", "500" …; empty when ok
  double ttft = -1;         // seconds; below 0: no token came
  std::vector<float> gaps;  // seconds between tokens
  std::int64_t tokens = 0;
  std::string level;      // as the reply's header said; empty when it did not
  bool degraded = false;  // x-spillway-actions was there
};

struct LoadReport {
  struct Row {
    std::int64_t sent = 0, ok = 0, refused = 0, failed = 0, within_slo = 0, degraded = 0,
                 tokens = 0;
    std::vector<double> ttft;
    std::vector<double> gaps;
    std::map<std::string, std::int64_t> errors;
  };
  std::array<Row, kQosClassCount> classes;
  Row all;
  std::map<std::string, std::int64_t> levels;
  double seconds = 0;
  double slo_seconds = 0;
  std::int64_t unsent = 0;  // never sent: too many were open
  std::int64_t prompts_clamped = 0, outputs_clamped = 0;

  void add(const LoadResult& result);
};

double quantile(std::vector<double> values, double q);  // nearest rank; 0 for none

std::string to_table(const LoadReport& report);
std::string to_json(const LoadReport& report);

}  // namespace spillway
