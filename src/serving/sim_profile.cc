#include "policy/map_reader.h"
#include "policy/yaml_document.h"
#include "serving/simulated_backend.h"

namespace spillway {

Result<SimServerProfile> load_sim_profile(std::string_view text, std::string_view file_name) {
  using std::chrono::microseconds;
  using std::chrono::seconds;
  std::vector<Finding> errors;
  const YamlNode document = parse_yaml(text, file_name, errors);
  if (!errors.empty()) {
    return to_error(errors);
  }
  SimServerProfile profile;
  SimProfile& engine = profile.engine;
  Reading reading{std::string(file_name), errors};
  {
    MapReader keys(reading, document, "");
    int kv_blocks = static_cast<int>(engine.kv_blocks);
    int seed = 1;
    std::int64_t max_model_len = profile.max_model_len;
    keys.count("max_running", engine.max_running, {1, 100'000});
    keys.count("batched_tokens_max", engine.batched_tokens_max, {1, 1'000'000});
    keys.count("kv_blocks", kv_blocks, {1, 100'000'000});
    keys.count("block_tokens", engine.block_tokens, {1, 4096});
    keys.duration("step_base", engine.step_base, {Duration{}, seconds(10)});
    keys.duration("per_prefill_token", engine.per_prefill_token, {Duration{}, seconds(1)});
    keys.duration("per_decode", engine.per_decode, {Duration{}, seconds(1)});
    keys.duration("per_kv_kilotoken", engine.per_kv_kilotoken, {Duration{}, seconds(1)});
    keys.flag("priority_scheduling", engine.priority_scheduling);
    keys.tokens("max_model_len", max_model_len, {2, 100'000'000});
    keys.tokens("output_mean", profile.output_mean, {1, 1'000'000});
    keys.count("seed", seed, {0, 1'000'000'000});
    engine.kv_blocks = kv_blocks;
    profile.seed = static_cast<std::uint64_t>(seed);
    profile.max_model_len = static_cast<int>(max_model_len);
  }
  if (!errors.empty()) {
    return to_error(errors);
  }
  return profile;
}

}  // namespace spillway
