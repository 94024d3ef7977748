#include "serving/simulated_backend.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "net/clock.h"
#include "prompt/token_estimate.h"

namespace spillway {
namespace {

constexpr std::array<std::string_view, 32> kWords = {
    "the",  "water", "rises", "behind", "a",     "wall",  "and",  "then", "it",   "finds", "one",
    "gate", "that",  "opens", "by",     "small", "steps", "so",   "no",   "part", "of",    "dam",
    "ever", "has",   "to",    "break",  "while", "rain",  "goes", "on",   "for",  "days"};

// "… sim:prompt=900 …" -> 900
std::optional<std::int64_t> stated_prompt(std::string_view text) {
  constexpr std::string_view kMark = "sim:prompt=";
  const std::size_t at = text.find(kMark);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  std::int64_t tokens = 0;
  const std::string_view digits = text.substr(at + kMark.size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), tokens);
  return error == std::errc{} && tokens > 0 ? std::optional(tokens) : std::nullopt;
}

std::int64_t prompt_tokens_of(const GenerationRequest& request) {
  std::int64_t tokens =
      estimate_tokens(request.prompt) + static_cast<std::int64_t>(request.prompt_tokens.size());
  std::optional<std::int64_t> stated = stated_prompt(request.prompt);
  for (const Message& message : request.messages) {
    tokens += estimate_tokens(message.content) + 4;
    if (const auto here = stated_prompt(message.content)) {
      stated = here;
    }
  }
  return std::max<std::int64_t>(stated.value_or(tokens), 1);
}

}  // namespace

SimulatedBackend::SimulatedBackend(boost::asio::io_context& io, const SimServerProfile& profile)
    : profile_(profile), engine_(profile.engine), rng_(profile.seed), timer_(io), hang_timer_(io) {}

std::variant<Started, OpenAiError> SimulatedBackend::start(const GenerationRequest& request,
                                                           GenerationEvents events) {
  const std::int64_t prompt = prompt_tokens_of(request);
  const std::int64_t room = profile_.max_model_len - prompt;
  const std::int64_t limit = std::min(request.max_tokens.value_or(room), room);
  if (limit < 1) {
    return OpenAiError{.message = fmt::format(
                           "This model's maximum context length is {} tokens; the prompt has {}.",
                           profile_.max_model_len, prompt),
                       .param = "messages",
                       .code = "context_length_exceeded"};
  }
  const double drawn = -std::log(1 - rng_.uniform()) * static_cast<double>(profile_.output_mean);
  const std::int64_t natural =
      request.ignore_eos ? limit
                         : request.sim_output_tokens.value_or(1 + static_cast<std::int64_t>(drawn));
  const SimId id = next_id_++;
  const std::int64_t output = std::min(natural, limit);
  if (!engine_.submit(monotonic_now(), {.id = id,
                                        .prompt_tokens = prompt,
                                        .output_tokens = output,
                                        .priority = request.priority})) {
    return OpenAiError{.message = "The request can never fit into the KV cache.",
                       .code = "context_length_exceeded"};
  }
  running_.emplace(id, Running{std::move(events), prompt, natural > limit ? "length" : "stop"});
  arm();
  return Started{id, prompt};
}

void SimulatedBackend::cancel(GenerationId id) {
  engine_.cancel(id);
  running_.erase(id);
}

void SimulatedBackend::hang_until(Instant until) {
  const Instant now = monotonic_now();
  hang_timer_.cancel();
  if (until <= now) {
    engine_.go_on(now);
    arm();
    return;
  }
  engine_.hang(now);
  hang_timer_.expires_after(std::min<Duration>(until - now, std::chrono::hours(24)));
  hang_timer_.async_wait([this](boost::system::error_code stopped) {
    if (!stopped) {
      engine_.go_on(monotonic_now());
      arm();
    }
  });
}

BackendStats SimulatedBackend::stats() {
  const SimStats s = engine_.stats();
  return {.running = s.running,
          .waiting = s.waiting,
          .kv_usage = s.kv_usage,
          .kv_blocks = profile_.engine.kv_blocks,
          .block_tokens = profile_.engine.block_tokens,
          .preemptions = s.preemptions,
          .prompt_tokens = s.prompt_tokens,
          .generation_tokens = s.generation_tokens};
}

void SimulatedBackend::advance() {
  tokens_.clear();
  engine_.advance(monotonic_now(), tokens_);
  for (const SimToken& token : tokens_) {
    const auto it = running_.find(token.id);
    if (it == running_.end()) {
      continue;
    }
    const Running running = it->second;  // a callback may cancel it
    if (token.last) {
      running_.erase(it);
    }
    running.events.token(
        std::string(
            kWords[(token.id * 7 + static_cast<std::uint64_t>(token.index)) % kWords.size()]) +
        " ");
    if (token.last) {
      running.events.end(running.finish_reason, {.prompt_tokens = running.prompt_tokens,
                                                 .completion_tokens = token.index + 1});
    }
  }
  arm();
}

void SimulatedBackend::arm() {
  const auto next = engine_.next_event();
  if (!next || (timer_at_ && *timer_at_ <= *next)) {
    return;
  }
  timer_at_ = next;
  timer_.expires_after(std::max<Duration>(*next - monotonic_now(), Duration{}));
  timer_.async_wait([this](boost::system::error_code stopped) {
    if (!stopped) {
      timer_at_.reset();
      advance();
    }
  });
}

}  // namespace spillway
