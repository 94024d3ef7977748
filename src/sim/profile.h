#pragma once
// What a simulated engine costs: the parameters of a continuous-batching engine such as vLLM. A
// value.

#include <cstdint>

#include "base/time.h"

namespace spillway {

struct SimProfile {
  int max_running = 64;          // sequences in the batch
  int batched_tokens_max = 512;  // tokens a step: one for each decode, the rest prefill chunks
  std::int64_t kv_blocks = 2048;
  int block_tokens = 16;
  Duration step_base = std::chrono::microseconds(8000);
  Duration per_prefill_token = std::chrono::microseconds(100);
  Duration per_decode = std::chrono::microseconds(250);  // for each decoding sequence of a step
  Duration per_kv_kilotoken =
      std::chrono::microseconds(50);  // attention: for each 1,000 KV tokens read
  bool priority_scheduling = false;   // lower priority numbers go first
};

}  // namespace spillway
