#include "serving/engine_page.h"

#include <algorithm>

namespace spillway {

void EnginePage::Histogram::observe(double value) {
  ++counts[static_cast<std::size_t>(std::ranges::lower_bound(bounds, value) - bounds.begin())];
  sum += value;
}

std::string EnginePage::text(const BackendStats& s) const {
  PrometheusWriter writer;
  const auto one = [&](std::string_view name, std::string_view type, std::string_view help,
                       double value) {
    writer.family(name, type, help);
    writer.sample(name, labels_, value);
  };
  one("vllm:num_requests_running", "gauge", "Number of requests in model execution batches.",
      s.running);
  one("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.",
      s.waiting);
  one("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.",
      s.kv_usage);
  one("vllm:num_preemptions_total", "counter", "Cumulative number of preemptions.",
      static_cast<double>(s.preemptions));
  one("vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.",
      static_cast<double>(s.prompt_tokens));
  one("vllm:generation_tokens_total", "counter", "Number of generation tokens processed.",
      static_cast<double>(s.generation_tokens));
  writer.family("vllm:request_success_total", "counter",
                "Count of successfully processed requests.");
  for (const char* reason : {"stop", "length", "abort"}) {
    Labels labels = labels_;
    labels.emplace_back("finished_reason", reason);
    const auto it = ended_.find(reason);
    writer.sample("vllm:request_success_total", labels,
                  it == ended_.end() ? 0 : static_cast<double>(it->second));
  }
  const auto histogram = [&](std::string_view name, std::string_view help, const Histogram& h) {
    writer.family(name, "histogram", help);
    writer.histogram(name, labels_, h.bounds, h.counts, h.sum);
  };
  histogram("vllm:time_to_first_token_seconds", "Time to first token in seconds.", first_token_);
  histogram("vllm:inter_token_latency_seconds", "Time between two tokens in seconds.",
            between_tokens_);
  histogram("vllm:e2e_request_latency_seconds", "Request latency in seconds.", whole_);
  writer.family("vllm:cache_config_info", "gauge", "Information of the cache configuration.");
  writer.sample("vllm:cache_config_info",
                {{"block_size", std::to_string(s.block_tokens)},
                 {"engine", "0"},
                 {"num_gpu_blocks", std::to_string(s.kv_blocks)}},
                1);
  return writer.take();
}

}  // namespace spillway
