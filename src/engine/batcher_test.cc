#include "engine/batcher.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Fixture {
  explicit Fixture(std::size_t pages = 100, std::size_t running = 8, std::size_t chunk = 32)
      : pool({.layers = 2, .pages = pages}),
        batcher({.running = running,
                 .waiting = 50,
                 .prefill_chunk = chunk,
                 .context = pool.capacity_tokens()},
                pool) {}

  SequenceId submit(std::size_t prompt, int reply = 10, int priority = 0) {
    auto id = batcher.submit({.prompt = std::vector<TokenId>(prompt, 7),
                              .max_tokens = reply,
                              .sampler = {.temperature = 0},
                              .priority = priority});
    EXPECT_TRUE(id) << id.error().message;
    return id ? *id : 0;
  }

  // One step with every sampled token 7; the events.
  std::vector<TokenEvent> step() {
    const StepPlan& plan = batcher.plan();
    rows = plan.rows.size();
    batcher.rows_done();
    std::vector<TokenEvent> events;
    for (Sequence* sequence : plan.sampled) {
      events.push_back(batcher.accept(*sequence, 7, false));
    }
    return events;
  }

  std::vector<SequenceId> step_ids() {
    std::vector<SequenceId> ids;
    for (const TokenEvent& event : step()) {
      ids.push_back(event.sequence);
    }
    return ids;
  }

  KvPool pool;
  Batcher batcher;
  std::size_t rows = 0;  // of the last step
};

TEST(Batcher, PlansEveryDecodingSequenceAndOneChunkOfPrompts) {
  Fixture f;
  f.submit(4);
  f.submit(5);
  f.step();
  f.submit(70);

  EXPECT_EQ(f.step().size(), 2U);
  EXPECT_EQ(f.rows, 2U + 32U);
  EXPECT_EQ(f.step().size(), 2U);
  EXPECT_EQ(f.rows, 2U + 32U);
  EXPECT_EQ(f.step().size(), 3U);
  EXPECT_EQ(f.rows, 2U + 6U);
}

TEST(Batcher, FillsAChunkWithSeveralShortPrompts) {
  Fixture f;
  f.submit(10);
  f.submit(10);
  f.submit(20);

  EXPECT_THAT(f.step_ids(), ElementsAre(1, 2));
  EXPECT_EQ(f.rows, 32U);
  EXPECT_THAT(f.step_ids(), ElementsAre(1, 2, 3));
}

TEST(Batcher, RowsKnowTheirPositionsAndSlots) {
  Fixture f;
  f.submit(40);
  f.step();

  const StepPlan& plan = f.batcher.plan();

  ASSERT_EQ(plan.rows.size(), 8U);
  EXPECT_EQ(plan.rows.front().position, 32);
  EXPECT_EQ(plan.rows.front().from_end, 8U);
  EXPECT_EQ(plan.rows.back().position, 39);
  EXPECT_EQ(plan.rows.back().from_end, 1U);
  EXPECT_TRUE(plan.rows.back().wants_logits);
  EXPECT_FALSE(plan.rows.front().wants_logits);
  EXPECT_EQ(plan.rows.back().cache->layers[1].used, 40U);
}

TEST(Batcher, TakesWaitingOnesByPriorityThenArrival) {
  Fixture f(100, 1);
  f.submit(4, 1, 5);
  f.submit(4, 1, 1);
  f.submit(4, 1, 5);
  f.submit(4, 1, 1);

  std::vector<SequenceId> order;
  for (int i = 0; i < 4; ++i) {
    order.push_back(f.step_ids().at(0));
  }

  EXPECT_THAT(order, ElementsAre(2, 4, 1, 3));
}

TEST(Batcher, RunsNoMoreThanAllowed) {
  Fixture f(100, 2);
  for (int i = 0; i < 5; ++i) {
    f.submit(4);
  }
  f.step();

  EXPECT_EQ(f.batcher.running(), 2U);
  EXPECT_EQ(f.batcher.waiting(), 3U);
}

TEST(Batcher, EndsAtTheEndTokenOrTheLength) {
  Fixture f;
  f.submit(4, 1);
  f.submit(4, 9);
  const StepPlan& plan = f.batcher.plan();
  f.batcher.rows_done();

  const TokenEvent full = f.batcher.accept(*plan.sampled[0], 7, false);
  const TokenEvent ended = f.batcher.accept(*plan.sampled[1], 9, true);

  EXPECT_EQ(full.finish, FinishReason::kLength);
  EXPECT_EQ(ended.finish, FinishReason::kStop);
  EXPECT_TRUE(ended.is_end);
  EXPECT_EQ(f.batcher.running(), 0U);
  EXPECT_EQ(f.pool.used_pages(), 0U);
}

TEST(Batcher, PreemptsTheLeastComputedOfTheLargestPriorityNumber) {
  Fixture f(2 * 7, 8, 64);
  f.submit(16, 60, 0);
  f.submit(14, 60, 1);
  f.submit(8, 60, 1);
  std::vector<SequenceId> ids = f.step_ids();
  ASSERT_THAT(ids, ElementsAre(1, 2, 3));

  while (f.batcher.counters().preemptions == 0) {
    ids = f.step_ids();
  }

  EXPECT_THAT(ids, ElementsAre(1, 2));
  EXPECT_EQ(f.batcher.waiting(), 1U);
}

TEST(Batcher, PreemptsByPriorityBeforeProgress) {
  Fixture f(2 * 6, 8, 64);
  f.submit(30, 60, 9);
  f.submit(8, 60, 0);
  std::vector<SequenceId> ids;

  while (f.batcher.counters().preemptions == 0) {
    ids = f.step_ids();
  }

  EXPECT_THAT(ids, ElementsAre(2));
}

TEST(Batcher, ComputesAPreemptedSequenceAgainButCountsItsPromptOnce) {
  Fixture f(2 * 6, 8, 64);
  f.submit(20, 60, 0);
  f.submit(20, 60, 0);
  std::size_t tokens = 0;
  std::size_t ended = 0;
  while (f.batcher.running() + f.batcher.waiting() > 0) {
    for (const TokenEvent& event : f.step()) {
      ++tokens;
      ended += event.finish ? 1 : 0;
    }
  }

  EXPECT_GE(f.batcher.counters().preemptions, 1U);
  EXPECT_EQ(tokens, 120U);
  EXPECT_EQ(ended, 2U);
  EXPECT_EQ(f.batcher.counters().prompt_tokens, 40U);
  EXPECT_EQ(f.batcher.counters().generation_tokens, 120U);
}

TEST(Batcher, CancellationFreesPagesAtOnce) {
  Fixture f;
  const SequenceId running = f.submit(40);
  f.step();
  const SequenceId waiting = f.submit(4);
  ASSERT_GT(f.pool.used_pages(), 0U);

  f.batcher.cancel(running);
  f.batcher.cancel(waiting);
  f.batcher.cancel(999);

  EXPECT_EQ(f.pool.used_pages(), 0U);
  EXPECT_TRUE(f.step().empty());
  EXPECT_EQ(f.rows, 0U);
}

TEST(Batcher, RefusesWhatCanNeverRun) {
  Fixture f(2 * 4);  // 64 tokens
  const auto refused = [&](Generation generation) {
    const auto id = f.batcher.submit(std::move(generation));
    return id ? "" : id.error().message;
  };

  EXPECT_THAT(refused({.prompt = {}}), HasSubstr("no tokens"));
  EXPECT_THAT(refused({.prompt = {1}, .max_tokens = 0}), HasSubstr("max_tokens is 0"));
  EXPECT_THAT(refused({.prompt = {1}, .max_tokens = 64}), HasSubstr("context of 64 tokens"));
  EXPECT_THAT(refused({.prompt = {1}, .sampler = {.top_p = 2}}), HasSubstr("top_p"));
  EXPECT_EQ(refused({.prompt = {1}, .max_tokens = 63}), "");
}

TEST(Batcher, RefusesMoreWaitingThanAllowed) {
  Fixture f(100, 1);
  for (int i = 0; i < 50; ++i) {
    f.submit(4);
  }

  const auto id = f.batcher.submit({.prompt = {1}});

  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().code, ErrorCode::kUnavailable);
}

// Any mixture ends, with every token delivered, inside the pool, and without losing a page.
TEST(Batcher, FinishesEverythingThatFits) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Fixture f(2 * (3 + rng.below(20)), 1 + rng.below(8), 1 + rng.below(64));
    std::size_t expected = 0;
    std::size_t delivered = 0;
    for (int i = 0; i < 40; ++i) {
      const std::size_t prompt = 1 + rng.below(f.pool.capacity_tokens() / 2);
      const std::size_t reply = 1 + rng.below(f.pool.capacity_tokens() / 2);
      f.submit(prompt, static_cast<int>(reply), static_cast<int>(rng.below(3)));
      expected += reply;
    }
    int steps = 0;
    while (f.batcher.running() + f.batcher.waiting() > 0) {
      delivered += f.step().size();
      ASSERT_GT(f.rows, 0U);
      ASSERT_LT(++steps, 20000);
    }
    EXPECT_EQ(delivered, expected);
    EXPECT_EQ(f.pool.used_pages(), 0U);
  }
}

}  // namespace
}  // namespace spillway
