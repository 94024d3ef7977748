#include "signals/engine_facts.h"

#include <charconv>
#include <cmath>
#include <initializer_list>
#include <string_view>

namespace spillway {
namespace {

enum class Merge { kSum, kMean };

// The value under the first of these names that the page has. Names of one value are aliases:
// adding them up would count it twice (vLLM 0.9 and 0.10 export old and new names side by side).
std::optional<double> value_of(const PrometheusPage& page,
                               std::initializer_list<std::string_view> names, Merge merge) {
  for (const std::string_view name : names) {
    double sum = 0;
    int count = 0;
    for (const PrometheusSample& sample : page.samples) {
      if (sample.name == name && std::isfinite(sample.value) && sample.value >= 0) {
        sum += sample.value;
        ++count;
      }
    }
    if (count > 0) {
      return merge == Merge::kMean ? sum / count : sum;
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value <= 0 ||
      value > 1'000'000'000) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> kv_capacity(const PrometheusPage& page) {
  std::optional<std::int64_t> sum;
  for (const PrometheusSample& sample : page.samples) {
    if (sample.name != "vllm:cache_config_info") {
      continue;
    }
    const auto block = number(sample.label("block_size"));
    const auto blocks = number(sample.label("num_gpu_blocks"));
    if (block && blocks) {
      sum = sum.value_or(0) + *block * *blocks;
    }
  }
  return sum;
}

}  // namespace

EngineFacts read_vllm_page(const PrometheusPage& page) {
  EngineFacts facts;
  facts.kv_usage = value_of(
      page, {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "vllm:gpu_cache_usage_ratio"},
      Merge::kMean);
  if (facts.kv_usage && *facts.kv_usage > 1.0001) {
    facts.kv_usage.reset();  // not a share: a unit that we do not know
  }
  facts.kv_capacity_tokens = kv_capacity(page);
  facts.running = value_of(page, {"vllm:num_requests_running"}, Merge::kSum);
  facts.waiting = value_of(page, {"vllm:num_requests_waiting"}, Merge::kSum);
  facts.preemptions_total =
      value_of(page, {"vllm:num_preemptions_total", "vllm:num_preemptions"}, Merge::kSum);
  facts.prompt_tokens_total =
      value_of(page, {"vllm:prompt_tokens_total", "vllm:prompt_tokens"}, Merge::kSum);
  facts.generation_tokens_total =
      value_of(page, {"vllm:generation_tokens_total", "vllm:generation_tokens"}, Merge::kSum);
  facts.steps_total = value_of(page, {"vllm:iteration_tokens_total_count"}, Merge::kSum);
  return facts;
}

}  // namespace spillway
