#include "serving/embedded_backend.h"

#include <algorithm>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>

namespace spillway {

EmbeddedBackend::EmbeddedBackend(boost::asio::io_context& io, std::unique_ptr<Engine> engine,
                                 std::uint64_t seed)
    : io_(io),
      engine_(std::move(engine)),
      context_length_(engine_->context_length()),
      seeds_(seed),
      stats_(engine_->stats()),
      thread_([this] { run_engine(); }) {}

EmbeddedBackend::~EmbeddedBackend() {
  *alive_ = false;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
}

std::variant<std::vector<TokenId>, OpenAiError> EmbeddedBackend::prompt_of(
    const GenerationRequest& request) const {
  std::vector<TokenId> tokens;
  if (request.chat) {
    tokens = engine_->tokenizer().encode(engine_->chat_format().render(request.messages));
  } else if (!request.prompt_tokens.empty()) {
    tokens = request.prompt_tokens;
  } else {
    tokens = engine_->tokenizer().encode(std::string_view(request.prompt));
  }
  const auto beyond = [&](TokenId t) {
    return static_cast<std::size_t>(t) >= engine_->tokenizer().size();
  };
  if (std::ranges::any_of(tokens, beyond)) {
    return OpenAiError{.message = "'prompt' holds a token that the model does not have.",
                       .param = "prompt"};
  }
  if (tokens.empty()) {
    return OpenAiError{.message = "The prompt is empty.",
                       .param = request.chat ? "messages" : "prompt"};
  }
  return tokens;
}

std::variant<Started, OpenAiError> EmbeddedBackend::start(const GenerationRequest& request,
                                                          GenerationEvents events) {
  auto prompt = prompt_of(request);
  if (auto* error = std::get_if<OpenAiError>(&prompt)) {
    return std::move(*error);
  }
  auto& tokens = std::get<std::vector<TokenId>>(prompt);
  const auto count = static_cast<std::int64_t>(tokens.size());
  const std::int64_t room = context_length_ - count;
  const std::int64_t max_tokens = request.max_tokens.value_or(room);
  if (room < 1 || max_tokens > room) {
    return OpenAiError{
        .message = fmt::format("This model's maximum context length is {} tokens; the prompt has "
                               "{} and {} are to be generated.",
                               context_length_, count, std::max<std::int64_t>(max_tokens, 1)),
        .param = "messages",
        .code = "context_length_exceeded"};
  }
  if (open_.size() >= kOpenMax) {
    return OpenAiError{.status = 503,
                       .message = "The engine's queue is full.",
                       .type = "overloaded",
                       .code = "queue_full"};
  }
  const GenerationId id = next_id_++;
  open_.emplace(id, Open{.events = std::move(events), .prompt_tokens = count});
  send({.id = id,
        .generation = {.prompt = std::move(tokens),
                       .max_tokens = static_cast<int>(max_tokens),
                       .sampler = {.temperature = request.temperature,
                                   .top_k = std::max(request.top_k, 0),
                                   .top_p = request.top_p,
                                   .seed = request.seed.value_or(seeds_.next())},
                       .priority = request.priority,
                       .ignore_eos = request.ignore_eos}});
  return Started{id, count};
}

void EmbeddedBackend::cancel(GenerationId id) {
  if (open_.erase(id) > 0) {
    send({.id = id, .cancel = true});
  }
}

void EmbeddedBackend::send(Order order) {
  {
    const std::lock_guard lock(mutex_);
    mailbox_.push_back(std::move(order));
  }
  wake_.notify_one();
}

BackendStats EmbeddedBackend::stats() {
  const std::lock_guard lock(mutex_);
  const int page = std::max(stats_.page_tokens, 1);
  return {.running = stats_.running,
          .waiting = stats_.waiting,
          .kv_usage = static_cast<double>(stats_.kv_pages_used) /
                      static_cast<double>(std::max<std::int64_t>(stats_.kv_pages_total, 1)),
          .kv_blocks = stats_.kv_capacity_tokens / page,
          .block_tokens = page,
          .preemptions = stats_.preemptions,
          .prompt_tokens = stats_.prompt_tokens,
          .generation_tokens = stats_.generation_tokens};
}

void EmbeddedBackend::run_engine() {
  bool idle = true;
  std::vector<Order> orders;
  std::vector<TokenEvent> events;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      stats_ = engine_->stats();
      if (idle) {
        wake_.wait(lock, [this] { return stopping_ || !mailbox_.empty(); });
      }
      if (stopping_) {
        return;
      }
      orders = std::exchange(mailbox_, {});
    }
    std::vector<Token> tokens;
    for (Order& order : orders) {
      obey(order, tokens);
    }
    events.clear();
    idle = !engine_->step(events);
    for (const TokenEvent& event : events) {
      const auto it = by_sequence_.find(event.sequence);
      if (it == by_sequence_.end()) {
        continue;
      }
      tokens.push_back({.id = it->second, .event = event});
      if (event.finish) {
        by_id_.erase(it->second);
        by_sequence_.erase(it);
      }
    }
    if (!tokens.empty()) {
      boost::asio::post(io_, [this, alive = alive_, tokens = std::move(tokens)] {
        if (*alive) {
          deliver(tokens);
        }
      });
    }
  }
}

void EmbeddedBackend::obey(Order& order, std::vector<Token>& tokens) {
  if (order.cancel) {
    if (const auto it = by_id_.find(order.id); it != by_id_.end()) {
      engine_->cancel(it->second);
      by_sequence_.erase(it->second);
      by_id_.erase(it);
    }
    return;
  }
  const auto sequence = engine_->submit(std::move(order.generation));
  if (!sequence) {
    tokens.push_back({.id = order.id, .error = sequence.error().message});
    return;
  }
  by_sequence_[*sequence] = order.id;
  by_id_[order.id] = *sequence;
}

void EmbeddedBackend::deliver(const std::vector<Token>& tokens) {
  for (const Token& token : tokens) {
    deliver(token);
  }
}

void EmbeddedBackend::deliver(const Token& token) {
  const auto it = open_.find(token.id);
  if (it == open_.end()) {
    return;  // cancelled while it was on its way
  }
  if (!token.error.empty()) {
    const Open open = std::move(it->second);
    open_.erase(it);
    open.events.failed(
        {.status = 503, .message = token.error, .type = "overloaded", .code = "engine_refused"});
    return;
  }
  Open& open = it->second;
  ++open.tokens;
  std::string text = open.text.push(
      token.event.is_end ? std::string_view() : engine_->tokenizer().bytes(token.event.token));
  if (token.event.finish) {
    text += open.text.finish();
  }
  const auto on_token = open.events.token;  // copies: the callback may cancel, which ends `open`
  const auto on_end = open.events.end;
  const Usage usage{.prompt_tokens = open.prompt_tokens, .completion_tokens = open.tokens};
  on_token(text);
  if (token.event.finish && open_.erase(token.id) > 0) {
    on_end(*token.event.finish == FinishReason::kStop ? "stop" : "length", usage);
  }
}

}  // namespace spillway
