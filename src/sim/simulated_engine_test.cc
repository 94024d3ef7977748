#include "sim/simulated_engine.h"

#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace spillway {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<SimToken> run(SimulatedEngine& engine, Instant until) {
  std::vector<SimToken> tokens;
  engine.advance(until, tokens);
  return tokens;
}

TEST(SimulatedEngine, TakesTheTimeThatTheProfilePrices) {
  SimulatedEngine engine({.batched_tokens_max = 100,
                          .step_base = milliseconds(10),
                          .per_prefill_token = milliseconds(1),
                          .per_decode = milliseconds(2),
                          .per_kv_kilotoken = Duration{}});
  ASSERT_TRUE(engine.submit(Instant(), {.id = 1, .prompt_tokens = 150, .output_tokens = 3}));

  const std::vector<SimToken> tokens = run(engine, Instant(seconds(10)));

  ASSERT_EQ(tokens.size(), 3U);
  // Chunks of 100 and 50, then one decode a step.
  EXPECT_EQ(tokens[0].at, Instant(milliseconds(110 + 60)));
  EXPECT_EQ(tokens[1].at, Instant(milliseconds(110 + 60 + 12)));
  EXPECT_TRUE(tokens[2].last);
  EXPECT_FALSE(engine.next_event());
  EXPECT_EQ(engine.stats().kv_usage, 0);
}

TEST(SimulatedEngine, DecodesTogetherAtTheCostOfOneStep) {
  SimulatedEngine engine({.step_base = milliseconds(10),
                          .per_prefill_token = Duration{},
                          .per_decode = milliseconds(1),
                          .per_kv_kilotoken = Duration{}});
  for (SimId id = 0; id < 20; ++id) {
    engine.submit(Instant(), {.id = id, .prompt_tokens = 1, .output_tokens = 101});
  }

  run(engine, Instant(seconds(60)));

  // 20 sequences x 100 decodes in steps of 10 + 20 ms.
  EXPECT_EQ(engine.stats().generation_tokens, 20U * 101U);
  EXPECT_EQ(engine.stats().prompt_tokens, 20U);
}

TEST(SimulatedEngine, DoesNotStallDecodesBesideALongPrompt) {
  SimulatedEngine engine({.batched_tokens_max = 64});
  engine.submit(Instant(), {.id = 1, .prompt_tokens = 10, .output_tokens = 500});
  run(engine, Instant(milliseconds(100)));
  engine.submit(Instant(milliseconds(100)), {.id = 2, .prompt_tokens = 2000, .output_tokens = 1});

  const std::vector<SimToken> tokens = run(engine, Instant(seconds(2)));

  Instant before(milliseconds(100));
  for (const SimToken& token : tokens) {
    if (token.id == 1) {
      EXPECT_LT(token.at - before, milliseconds(40));
      before = token.at;
    }
  }
}

TEST(SimulatedEngine, RefusesWhatCanNeverFit) {
  SimulatedEngine engine({.kv_blocks = 10, .block_tokens = 16});

  EXPECT_FALSE(engine.submit(Instant(), {.id = 1, .prompt_tokens = 100, .output_tokens = 100}));
  EXPECT_TRUE(engine.submit(Instant(), {.id = 2, .prompt_tokens = 100, .output_tokens = 60}));
}

TEST(SimulatedEngine, ServesUrgentRequestsFirstWhereItSchedulesByPriority) {
  SimulatedEngine engine({.max_running = 1, .priority_scheduling = true});
  engine.submit(Instant(), {.id = 1, .output_tokens = 5, .priority = 2});
  engine.submit(Instant(), {.id = 2, .output_tokens = 5, .priority = 2});
  engine.submit(Instant(), {.id = 3, .output_tokens = 5, .priority = 0});

  std::vector<SimId> order;
  for (const SimToken& token : run(engine, Instant(seconds(10)))) {
    if (token.last) {
      order.push_back(token.id);
    }
  }

  EXPECT_EQ(order, (std::vector<SimId>{1, 3, 2}));
}

TEST(SimulatedEngine, MakesNoProgressWhileItHangs) {
  SimulatedEngine engine({});
  engine.submit(Instant(), {.id = 1, .output_tokens = 1000});
  run(engine, Instant(seconds(1)));
  engine.hang(Instant(seconds(1)));
  const auto before = engine.stats().generation_tokens;

  EXPECT_TRUE(run(engine, Instant(seconds(60))).empty());
  EXPECT_EQ(engine.stats().generation_tokens, before);
  EXPECT_EQ(engine.stats().running, 1);

  engine.go_on(Instant(seconds(60)));
  EXPECT_FALSE(run(engine, Instant(seconds(61))).empty());
}

TEST(SimulatedEngine, FreesTheBlocksOfACancelledRequestAtTheNextStep) {
  SimulatedEngine engine({});
  engine.submit(Instant(), {.id = 1, .prompt_tokens = 100, .output_tokens = 1000});
  run(engine, Instant(seconds(1)));
  engine.cancel(1);

  run(engine, Instant(seconds(2)));

  EXPECT_EQ(engine.stats().running, 0);
  EXPECT_EQ(engine.stats().kv_usage, 0);
}

// Random load on a small cache: preemption happens, and still every request emits exactly its
// tokens, in order, and the cache is never over its capacity.
TEST(SimulatedEngine, LosesNothingUnderMemoryPressure) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    SimulatedEngine engine({.max_running = 16,
                            .batched_tokens_max = 64,
                            .kv_blocks = 40,
                            .block_tokens = 16,
                            .priority_scheduling = seed % 2 == 0});
    std::map<SimId, std::int64_t> expected;
    std::map<SimId, std::int64_t> emitted;
    Instant now;
    std::vector<SimToken> tokens;
    for (SimId id = 0; id < 60; ++id) {
      now += milliseconds(static_cast<std::int64_t>(rng.below(100)));
      engine.advance(now, tokens);
      const SimRequest request{.id = id,
                               .prompt_tokens = 1 + static_cast<std::int64_t>(rng.below(200)),
                               .output_tokens = 1 + static_cast<std::int64_t>(rng.below(200)),
                               .priority = static_cast<int>(rng.below(3))};
      ASSERT_TRUE(engine.submit(now, request));
      expected[id] = request.output_tokens;
      if (rng.below(8) == 0) {
        engine.cancel(id);
        expected.erase(id);
      }
      ASSERT_LE(engine.stats().kv_usage, 1.0);
    }
    while (const auto next = engine.next_event()) {
      engine.advance(*next, tokens);
      ASSERT_LE(engine.stats().kv_usage, 1.0);
      ASSERT_LT(*next, Instant(hours(10)));
    }
    for (const SimToken& token : tokens) {
      ASSERT_EQ(token.index, emitted[token.id]++);
    }
    for (const auto& [id, count] : expected) {
      ASSERT_EQ(emitted[id], count) << "request " << id;
    }
    EXPECT_GT(engine.stats().preemptions, 0U);
    EXPECT_EQ(engine.stats().kv_usage, 0);
    EXPECT_EQ(engine.stats().waiting, 0);
  }
}

}  // namespace
}  // namespace spillway
