// Metrics pages: whatever an engine shows, facts are finite, not negative, or absent.
#include <cmath>

#include "base/check.h"
#include "fuzz/cuts.h"
#include "signals/engine_facts.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spillway;
  const EngineFacts facts = read_vllm_page(parse_prometheus_text(as_text(data, size)));
  for (const auto& fact :
       {facts.kv_usage, facts.running, facts.waiting, facts.preemptions_total,
        facts.prompt_tokens_total, facts.generation_tokens_total, facts.steps_total}) {
    CHECK(!fact || (std::isfinite(*fact) && *fact >= 0));
  }
  CHECK(!facts.kv_usage || *facts.kv_usage <= 1.001);
  CHECK(!facts.kv_capacity_tokens || *facts.kv_capacity_tokens > 0);
  return 0;
}
