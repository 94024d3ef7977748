#include "signals/engine_facts.h"

#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace spillway {
namespace {

EngineFacts read(std::string_view text) {
  return read_vllm_page(parse_prometheus_text(text));
}

TEST(VllmPage, IsReadUnderItsPresentNames) {
  const EngineFacts facts = read(R"(vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:num_requests_running{engine="0",model_name="m"} 3
vllm:num_requests_waiting{engine="0",model_name="m"} 4
vllm:num_preemptions_total{engine="0",model_name="m"} 5
vllm:prompt_tokens_total{engine="0",model_name="m"} 600
vllm:generation_tokens_total{engine="0",model_name="m"} 700
vllm:generation_tokens_created{engine="0",model_name="m"} 1.7e9
vllm:cache_config_info{block_size="16",num_gpu_blocks="512",engine="0"} 1
)");

  EXPECT_DOUBLE_EQ(*facts.kv_usage, 0.25);
  EXPECT_EQ(*facts.kv_capacity_tokens, 8192);
  EXPECT_DOUBLE_EQ(*facts.running, 3);
  EXPECT_DOUBLE_EQ(*facts.waiting, 4);
  EXPECT_DOUBLE_EQ(*facts.preemptions_total, 5);
  EXPECT_DOUBLE_EQ(*facts.prompt_tokens_total, 600);
  EXPECT_DOUBLE_EQ(*facts.generation_tokens_total, 700);
}

TEST(VllmPage, NeverAddsUpTwoNamesOfOneValue) {
  EXPECT_DOUBLE_EQ(*read("vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.5\n").kv_usage,
                   0.5);
  EXPECT_DOUBLE_EQ(*read("vllm:gpu_cache_usage_ratio 0.5\n").kv_usage, 0.5);
}

TEST(VllmPage, AddsUpTheRanksOfDataParallelism) {
  const EngineFacts facts = read(R"(vllm:num_requests_running{engine="0"} 3
vllm:num_requests_running{engine="1"} 5
vllm:kv_cache_usage_perc{engine="0"} 0.2
vllm:kv_cache_usage_perc{engine="1"} 0.4
)");

  EXPECT_DOUBLE_EQ(*facts.running, 8);
  EXPECT_DOUBLE_EQ(*facts.kv_usage, 0.3);
}

TEST(VllmPage, LeavesOutWhatIsAbsentOrNonsense) {
  const EngineFacts facts =
      read("vllm:kv_cache_usage_perc NaN\nvllm:num_requests_waiting -1\nother 5\n");

  EXPECT_FALSE(facts.kv_usage);
  EXPECT_FALSE(facts.waiting);
  EXPECT_FALSE(facts.running);
  EXPECT_FALSE(read("vllm:kv_cache_usage_perc 93\n").kv_usage);
}

TEST(VllmPage, IsReadAsRealEnginesWriteIt) {
  const std::string folder = std::string(SPILLWAY_SOURCE_DIR) + "/../shared/data/metrics/";
  std::ifstream v0(folder + "vllm_v0_runtime.prom");
  std::ifstream v1(folder + "vllm_v0_v1_names_idle.prom");
  if (!v0 || !v1) {
    GTEST_SKIP() << "the recorded pages are not here: " << folder;
  }
  std::stringstream text0;
  std::stringstream text1;
  text0 << v0.rdbuf();
  text1 << v1.rdbuf();

  const EngineFacts old_facts = read(text0.str());
  const EngineFacts new_facts = read(text1.str());

  EXPECT_TRUE(old_facts.kv_usage && old_facts.running && old_facts.waiting);
  EXPECT_TRUE(new_facts.kv_usage && new_facts.running && new_facts.waiting);
}

}  // namespace
}  // namespace spillway
