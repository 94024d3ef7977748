#pragma once
// What a load consists of: arrivals with their lengths, from a recorded trace or drawn from a seed.
// Pure functions.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "base/time.h"
#include "policy/qos_class.h"

namespace spillway {

struct Arrival {
  Duration at{};  // since the start
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  QosClass qos_class = QosClass::kNormal;
};

struct LoadShape {
  double speed = 1;  // 2: twice as fast as recorded
  double scale = 1;  // lengths are multiplied by this
  std::int64_t max_prompt = 1'000'000;
  std::int64_t max_output = 1'000'000;
  std::size_t limit = 1'000'000;                 // arrivals at most
  double critical = 20, high = 30, normal = 50;  // the mix of classes, in parts
};

struct Load {
  std::vector<Arrival> arrivals;
  std::int64_t prompts_clamped = 0;
  std::int64_t outputs_clamped = 0;
};

// `timestamp_ms,prompt_tokens,output_tokens`; a first line of names and further columns are
// allowed. An error names the line.
Result<Load> load_from_trace(std::string_view csv, std::string_view file_name,
                             const LoadShape& shape, Rng& rng);

// Poisson arrivals of one size.
Load load_at_rate(double rate, Duration duration, std::int64_t prompt, std::int64_t output,
                  const LoadShape& shape, Rng& rng);

// "critical=20,high=30,normal=50"
Status parse_class_mix(std::string_view text, LoadShape& shape);

}  // namespace spillway
