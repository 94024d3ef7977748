#include "engine/engine.h"

#include <cstring>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/loaded_model.h"
#include "engine/teacher.h"
#include "engine/toy_gguf.h"

namespace spillway {
namespace {

using testing::HasSubstr;

// A page of the toy holds 16 tokens of one of its two layers.
constexpr std::int64_t kToyPageBytes = 2 * 2 * 16 * 16 * 2 + 16 * 4 + 8;

struct Toy {
  explicit Toy(const EngineOptions& options = {}, const ToyModel& model = {})
      : bytes(toy_model(model).file()) {
    auto loaded = LoadedModel::from_bytes(bytes, {.path = "toy.gguf"});
    EXPECT_TRUE(loaded) << loaded.error().message;
    auto made = Engine::on_model(*std::move(loaded), options);
    EXPECT_TRUE(made) << made.error().message;
    engine = *std::move(made);
  }

  using Replies = std::map<SequenceId, std::vector<TokenId>>;

  void step(Replies& replies) {
    std::vector<TokenEvent> events;
    engine->step(events);
    for (const TokenEvent& event : events) {
      replies[event.sequence].push_back(event.token);
    }
  }
  Replies run() {
    Replies replies;
    while (engine->stats().running + engine->stats().waiting > 0) {
      step(replies);
    }
    return replies;
  }

  Bytes bytes;  // outlives the engine
  std::unique_ptr<Engine> engine;
};

Generation request(int index) {
  Rng rng(static_cast<std::uint64_t>(index) + 100);
  Generation generation{.max_tokens = 12 + index % 5};
  for (int i = 0; i < 5 + 7 * (index % 4); ++i) {
    generation.prompt.push_back(static_cast<TokenId>(rng.below(256)));
  }
  generation.sampler.temperature = index % 2 == 0 ? 0.0 : 1.5;
  generation.sampler.seed = static_cast<std::uint64_t>(index);
  generation.ignore_eos = true;
  return generation;
}

std::vector<TokenId> alone(const Generation& generation, const EngineOptions& options = {},
                           const ToyModel& model = {}) {
  Toy toy(options, model);
  const auto id = toy.engine->submit(generation);
  EXPECT_TRUE(id) << id.error().message;
  return toy.run()[*id];
}

TEST(Engine, GivesARequestTheSameTokensAloneAndInABatch) {
  for (const TensorType type : {TensorType::kQ4_1, TensorType::kQ8_0, TensorType::kF16}) {
    SCOPED_TRACE(std::string(tensor_layout(type).name));
    Toy toy({.max_running = 9}, {.type = type});
    std::vector<SequenceId> ids;
    Toy::Replies replies;
    for (int i = 0; i < 9; ++i) {
      ids.push_back(*toy.engine->submit(request(i)));
      toy.step(replies);  // they join at different times
    }
    for (const auto& [id, tokens] : toy.run()) {
      replies[id].insert(replies[id].end(), tokens.begin(), tokens.end());
    }

    for (int i = 0; i < 9; ++i) {
      EXPECT_EQ(replies[ids[static_cast<std::size_t>(i)]], alone(request(i), {}, {.type = type}))
          << i;
    }
  }
}

TEST(Engine, GivesTheSameTokensWhateverTheChunkAndTheThreads) {
  Generation generation = request(3);
  generation.prompt.resize(77, 65);
  const std::vector<TokenId> expected = alone(generation, {.threads = 1, .prefill_chunk = 128});

  for (const int chunk : {1, 7, 16, 64}) {
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(chunk);
      EXPECT_EQ(alone(generation, {.threads = threads, .prefill_chunk = chunk}), expected);
    }
  }
}

TEST(Engine, APreemptedRequestGoesOnWhereItWas) {
  // Six pages a layer; the four requests want sixteen.
  Toy toy({.kv_bytes = 12 * kToyPageBytes, .max_running = 4});
  const auto longer = [](int index) {
    Generation generation = request(index);
    generation.max_tokens = 40;
    return generation;
  };
  std::vector<SequenceId> ids;
  for (int i = 0; i < 4; ++i) {
    ids.push_back(*toy.engine->submit(longer(i)));
  }

  Toy::Replies replies = toy.run();

  EXPECT_GT(toy.engine->stats().preemptions, 0U);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(replies[ids[static_cast<std::size_t>(i)]], alone(longer(i))) << i;
  }
  EXPECT_EQ(toy.engine->stats().kv_pages_used, 0);
}

TEST(Engine, StaysInsideItsBudgetOfPages) {
  constexpr std::int64_t kBudget = 12 * kToyPageBytes + kToyPageBytes / 2;
  Toy toy({.kv_bytes = kBudget, .max_running = 4});
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(toy.engine->submit(request(i)));
  }
  EXPECT_EQ(toy.engine->stats().kv_pages_total, 12);

  Toy::Replies replies;
  std::int64_t most = 0;
  while (toy.engine->stats().running + toy.engine->stats().waiting > 0) {
    toy.step(replies);
    most = std::max(most, toy.engine->stats().kv_pages_used);
    ASSERT_LE(most * kToyPageBytes, kBudget);
  }

  EXPECT_EQ(replies.size(), 12U);
  EXPECT_GE(most, 10);
}

TEST(Engine, CancellationStopsASequenceAndFreesItsPages) {
  Toy toy;
  const SequenceId first = *toy.engine->submit(request(1));
  const SequenceId second = *toy.engine->submit(request(2));
  Toy::Replies replies;
  toy.step(replies);
  toy.step(replies);

  toy.engine->cancel(first);
  const std::size_t before = replies[first].size();
  for (const auto& [id, tokens] : toy.run()) {
    replies[id].insert(replies[id].end(), tokens.begin(), tokens.end());
  }

  EXPECT_EQ(replies[first].size(), before);
  EXPECT_EQ(replies[second], alone(request(2)));
  EXPECT_EQ(toy.engine->stats().kv_pages_used, 0);
}

TEST(Engine, EndsAReplyAtTheModelsEndToken) {
  // At this temperature every token is about as likely; 257 of 259 are not the end.
  Generation generation = request(1);
  generation.max_tokens = 100;
  generation.sampler.temperature = 100.0;
  generation.ignore_eos = false;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Toy toy;
    generation.sampler.seed = seed;
    ASSERT_TRUE(toy.engine->submit(generation));
    std::vector<TokenEvent> events;
    while (toy.engine->step(events)) {
    }
    for (const TokenEvent& event : events) {
      ASSERT_EQ(event.is_end, toy.engine->tokenizer().is_end(event.token));
      ASSERT_EQ(event.finish.has_value(), &event == &events.back());
    }
    if (events.back().finish == FinishReason::kStop) {
      EXPECT_TRUE(events.back().is_end);
      EXPECT_LT(events.size(), 100U);
      return;
    }
  }
  FAIL() << "no reply ended by itself";
}

TEST(Engine, RefusesRequestsThatCanNeverFit) {
  Toy toy({.kv_bytes = 4 * kToyPageBytes});
  ASSERT_EQ(toy.engine->context_length(), 32);
  const auto refused = [&](Generation generation) {
    const auto id = toy.engine->submit(std::move(generation));
    return id ? "" : id.error().message;
  };

  EXPECT_THAT(refused({.prompt = {1}, .max_tokens = 32}), HasSubstr("context of 32 tokens"));
  EXPECT_THAT(refused({.prompt = {259}}), HasSubstr("token 259"));
  EXPECT_THAT(refused({.prompt = {-1}}), HasSubstr("token -1"));
  EXPECT_EQ(refused({.prompt = {1}, .max_tokens = 31}), "");
}

TEST(Engine, NamesTheOptionThatIsOutOfRange) {
  const std::pair<EngineOptions, const char*> cases[] = {
      {{.threads = 0}, "threads is 0"},
      {{.max_running = 0}, "max_running is 0"},
      {{.max_waiting = -1}, "max_waiting is -1"},
      {{.prefill_chunk = 0}, "prefill_chunk is 0"}};
  for (const auto& [options, says] : cases) {
    const auto engine = Engine::load(options);
    ASSERT_FALSE(engine);
    EXPECT_THAT(engine.error().message, HasSubstr(says));
  }
  const Bytes bytes = toy_model().file();
  auto model = LoadedModel::from_bytes(bytes, {.path = "toy.gguf"});
  const auto poor = Engine::on_model(*std::move(model), {.kv_bytes = kToyPageBytes});
  ASSERT_FALSE(poor);
  EXPECT_THAT(poor.error().message, HasSubstr("too few"));
}

TEST(Engine, RunsOutputMatricesOfTheirOwnAndSoloHeads) {
  const ToyModel model{.heads = 4, .kv_heads = 4, .type = TensorType::kQ5_1, .tied = false};

  EXPECT_EQ(alone(request(1), {.threads = 1}, model), alone(request(1), {.threads = 2}, model));
}

TEST(Teacher, GivesTheLogitsThatTheEngineChoosesFrom) {
  const Bytes bytes = toy_model().file();
  const auto model = LoadedModel::from_bytes(bytes, {.path = "toy.gguf"});
  ASSERT_TRUE(model);
  Generation generation = request(2);
  std::vector<TokenId> tokens = generation.prompt;
  const std::vector<TokenId> reply = alone(generation);
  tokens.insert(tokens.end(), reply.begin(), reply.end() - 1);
  auto teacher = Teacher::create(**model, {.chunk = 5});
  ASSERT_TRUE(teacher);

  std::vector<TokenId> best;
  const Status done =
      teacher->logits_of(tokens, [&](std::size_t position, std::span<const float> logits) {
        EXPECT_EQ(position, best.size());
        best.push_back(static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin()));
      });

  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(std::ranges::equal(std::span(best).subspan(generation.prompt.size() - 1), reply));
}

TEST(Teacher, RefusesWhatIsNoInputOfTheModel) {
  const Bytes bytes = toy_model().file();
  const auto model = LoadedModel::from_bytes(bytes, {.path = "toy.gguf"});
  auto teacher = Teacher::create(**model, {});
  const auto ignore = [](std::size_t, std::span<const float>) {};

  EXPECT_FALSE(teacher->logits_of({}, ignore));
  EXPECT_FALSE(teacher->logits_of(std::vector<TokenId>(129, 1), ignore));
  EXPECT_FALSE(teacher->logits_of(std::vector<TokenId>{1, 300}, ignore));
  EXPECT_FALSE(Teacher::create(**model, {.threads = 0}));
}

}  // namespace
}  // namespace spillway
