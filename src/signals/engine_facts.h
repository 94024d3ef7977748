#pragma once
// What an engine's metrics page says, in our own words. An absent field means: the page does not
// have it. Metric names by engine and version stand in the source file. Pure; anybody may use it.

#include <cstdint>
#include <optional>

#include "wire/prometheus_text.h"

namespace spillway {

struct EngineFacts {
  std::optional<double> kv_usage;  // share of the KV cache in use, 0 to 1
  std::optional<std::int64_t> kv_capacity_tokens;
  std::optional<double> running;  // requests being served
  std::optional<double> waiting;  // requests in the engine's queue
  std::optional<double> preemptions_total;
  std::optional<double> prompt_tokens_total;
  std::optional<double> generation_tokens_total;
  std::optional<double> steps_total;  // of the engine's loop: moves in a long prefill too
};

// A vLLM page, V0 or V1. Ranks of data parallelism (label `engine`) are added up; usage is their
// mean.
EngineFacts read_vllm_page(const PrometheusPage& page);

}  // namespace spillway
