#pragma once
// Counts and distributions over all requests, from their records. One owner thread (the operators'
// one).

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "session/request_record.h"
#include "wire/prometheus_text.h"

namespace spillway {

// A histogram with fixed bounds, in seconds.
class SecondsHistogram {
 public:
  static constexpr std::array<double, 14> kBounds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                                     1,     2.5,  5,     10,   30,  60,   120};
  void observe(double seconds);
  void write(PrometheusWriter& writer, std::string_view name, const Labels& labels) const;

 private:
  std::array<std::uint64_t, kBounds.size() + 1> counts_{};
  double sum_ = 0;
};

class RequestMetrics {
 public:
  void add(const RequestRecord& record);
  void write(PrometheusWriter& writer) const;

 private:
  // Bounded: pools come from the configuration, the rest are enumerations. Beyond 1,000 keys:
  // "other".
  using Key = std::tuple<std::string, QosClass, Outcome>;
  static constexpr std::size_t kKeysMax = 1000;

  std::map<Key, std::uint64_t> requests_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> actions_;  // (pool, action)
  std::map<std::string, std::array<SecondsHistogram, kQosClassCount>> first_token_;
  std::map<std::string, std::array<SecondsHistogram, kQosClassCount>> total_;
  struct PoolCounts {
    std::uint64_t retries = 0;
    std::uint64_t failovers = 0;
    std::uint64_t unreadable = 0;
    std::uint64_t usage_counted = 0;
  };

  std::map<std::string, PoolCounts> counts_;
  std::map<std::string, std::uint64_t> prompt_tokens_;
  std::map<std::string, std::uint64_t> output_tokens_;
};

}  // namespace spillway
