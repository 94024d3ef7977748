// The engine's side of a session: admission, the request on its way out, what is done when an
// attempt fails.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "prompt/token_estimate.h"
#include "session/session.h"

namespace spillway {
namespace {

// What a chat template adds around each message.
constexpr std::int64_t kTokensAroundMessage = 5;
// What an image or another part that is no text is taken for.
constexpr std::int64_t kTokensOfOtherPart = 500;
constexpr std::size_t kConversationBytes = 2048;

// Names the beginning of a conversation: all up to its first user message.
std::uint64_t conversation_of(const OpenAiRequest& request) {
  std::uint64_t name = 0;
  std::size_t bytes = 0;
  for (const RequestMessage& message : request.messages) {
    name = Quarantine::fingerprint(message.text, Quarantine::fingerprint(message.role, name));
    bytes += message.text.size();
    if (message.role == "user" || bytes > kConversationBytes) {
      break;
    }
  }
  if (!request.prompt.empty()) {
    name = Quarantine::fingerprint(std::string_view(request.prompt).substr(0, kConversationBytes),
                                   name);
  }
  return name;
}

RequestFacts facts_of(const OpenAiRequest& request, const Exchange& x) {
  RequestFacts facts{.qos_class = x.identity.qos_class,
                     .max_tokens = request.max_tokens,
                     .generates = x.route != Route::kForward,
                     .retries = x.snapshot->config.classes[index_of(x.identity.qos_class)].retries,
                     .conversation = conversation_of(request)};
  facts.messages.reserve(request.messages.size());
  for (const RequestMessage& message : request.messages) {
    const std::int64_t tokens = estimate_tokens(message.text) + kTokensAroundMessage +
                                static_cast<std::int64_t>(message.tool_bytes / 3) +
                                message.other_parts * kTokensOfOtherPart;
    facts.messages.push_back({message.role, tokens});
    facts.prompt_tokens += tokens;
  }
  facts.prompt_tokens +=
      estimate_tokens(request.prompt) + static_cast<std::int64_t>(request.prompt_tokens_given);
  if (!facts.generates) {
    facts.prompt_tokens = static_cast<std::int64_t>(x.body.size() / 4);
  }
  return facts;
}

OpenAiError engine_error(int status, std::string message, std::string_view code = "engine_error") {
  return {.status = status,
          .message = std::move(message),
          .type = "engine_error",
          .code = std::string(code)};
}

// The same bytes would end the same way: clients must not send them again by themselves.
constexpr std::string_view kDoNotRetry = "x-should-retry";

LocalAnswer poison_answer() {
  LocalAnswer local = error_answer(
      engine_error(502, "Two engines have died with this request; it is refused for a minute.",
                   "poison_request"),
      Outcome::kRefused);
  append_field(local.extra_headers, kDoNotRetry, "false");
  return local;
}

}  // namespace

void Session::dispatch_to_engine(Instant now) {
  Exchange& x = *exchange_;
  const OpenAiRoute route = x.route == Route::kChat          ? OpenAiRoute::kChat
                            : x.route == Route::kCompletions ? OpenAiRoute::kCompletions
                                                             : OpenAiRoute::kOther;
  auto parsed = services_.request_parser.parse(route, x.body);
  if (const auto* error = std::get_if<OpenAiError>(&parsed)) {
    refuse_request(*error, true, now);
    return;
  }
  auto& request = std::get<OpenAiRequest>(parsed);
  const auto& pools = x.snapshot->config.pools;
  if (!request.model_span && pools.size() == 1) {
    request.model = pools.front().models.front();  // as engines that serve one model do
  }
  x.record.model = request.model;
  x.record.streamed = request.stream;
  x.replies = std::max<std::int64_t>(request.replies, 1);
  x.pool = services_.pools.serving(request.model);
  if (x.pool == nullptr) {
    refuse_request({.status = 404,
                    .message = fmt::format("The model '{}' does not exist here.", request.model),
                    .param = "model",
                    .code = "model_not_found"},
                   true, now);
    return;
  }
  x.fingerprint = Quarantine::fingerprint(x.body);
  if (services_.quarantine.refuses(now, x.fingerprint)) {
    answer(poison_answer(), now);
    return;
  }
  RequestEdits edits;
  if (request.model_span && request.model != x.pool->config().models.front()) {
    edits.model = x.pool->config().models.front();
  }
  x.plain = now < services_.bypass_until;
  const bool generates = x.route != Route::kForward;
  if (generates && !x.plain) {
    edits.include_usage = request.stream;
    if (x.pool->config().priority_scheduling) {
      edits.priority = static_cast<int>(index_of(x.identity.qos_class));
    }
  }
  x.reply_options = {.generates = generates,
                     .caller_asked_usage = request.caller_asked_usage || x.plain,
                     .asked_at = services_.wall_at(now)};
  const std::string body = std::exchange(x.body, {});
  if (!admit(facts_of(request, x), now)) {
    return;
  }
  edits.max_tokens = x.plan.max_tokens;
  edits.dropped_messages = std::move(x.plan.dropped_messages);
  if (x.plan.max_tokens && request.stream) {
    x.budget = *x.plan.max_tokens * x.replies;
  }
  x.engine_body = apply_edits(request, body, edits);
  write_engine_head();
  append_field(x.engine_head, "content-length", std::to_string(x.engine_body.size()));
  start(now);
}

// True when a replica was chosen; otherwise the refusal has been given.
bool Session::admit(const RequestFacts& facts, Instant now) {
  Exchange& x = *exchange_;
  const Config& config = x.snapshot->config;
  x.record.pool = x.pool->config().name;
  x.record.prompt_tokens = facts.prompt_tokens;
  Verdict verdict = x.plain ? x.pool->admit_plainly(now, facts) : x.pool->admit(now, facts);
  if (const auto* refused = std::get_if<Refused>(&verdict)) {
    refuse(*refused, now);
    return false;
  }
  auto& admitted = std::get<Admitted>(verdict);
  x.ticket = admitted.ticket;
  x.level = admitted.level;
  x.plan = std::move(admitted.plan);
  x.actions = x.plain ? "bypass" : x.plan.actions;
  x.record.replica = admitted.replica;
  x.record.prompt_tokens = x.plan.prompt_tokens;
  const Duration total =
      x.record.streamed ? config.limits.stream_timeout : config.limits.request_timeout;
  x.deadlines.total = x.began + x.asked_total.value_or(total);
  x.deadlines.first_token =
      x.began + x.asked_first_token.value_or(
                    config.classes[index_of(x.identity.qos_class)].first_token_timeout);
  x.spoken_at = x.began;
  return true;
}

// All of the head but the framing of the body and the host.
void Session::write_engine_head() {
  Exchange& x = *exchange_;
  std::string& out = x.engine_head;
  out.reserve(x.passed_headers.size() + 384);
  out.append("POST ").append(x.pattern).append(" HTTP/1.1\r\n").append(x.passed_headers);
  append_field(out, "x-request-id", x.identity.request_id);
  out.append("traceparent: ");
  append_traceparent(out, x.identity.trace);
  out.append("\r\n");
  x.passed_headers = std::string();
}

void Session::start(Instant now) {
  Exchange& x = *exchange_;
  x.engine_head.append("host: ");  // completed when the replica is known for good
  x.reply.emplace(x.reply_options, services_.reply_reader);
  send_to(std::string(x.record.replica), false, now);
}

void Session::refuse(const Refused& refused, Instant now) {
  Exchange& x = *exchange_;
  x.level = refused.level;
  x.actions = refused.actions;
  OpenAiError error{.status = 429, .type = "overloaded", .code = "overloaded"};
  Outcome outcome = Outcome::kRefused;
  switch (refused.cause) {
    case Refused::Cause::kShed:
      error.message =
          fmt::format("The service is overloaded and refuses requests of class {} for now.",
                      name_of(x.identity.qos_class));
      break;
    case Refused::Cause::kFull:
      error.message = "The service has as many requests as it can hold.";
      error.code = "full";
      break;
    case Refused::Cause::kNobodyThere:
      error.status = 503;
      error.message = "No engine can be reached for this model.";
      error.type = "service_unavailable";
      error.code = "no_replica";
      outcome = Outcome::kUnavailable;
      break;
  }
  LocalAnswer local = error_answer(error, outcome);
  append_retry_after(local.extra_headers, refused.retry_after);
  answer(local, now);
}

void Session::send_to(const std::string& replica, bool fresh, Instant now) {
  Exchange& x = *exchange_;
  x.record.replica = replica;
  x.phase_began = now;
  state_ = State::kConnecting;
  effects_.emplace_back(ConnectEngine{replica, fresh});
}

void Session::connected(bool reused, Instant now) {
  if (state_ != State::kConnecting) {
    return;
  }
  Exchange& x = *exchange_;
  engine_held_ = true;
  state_ = State::kReplying;
  x.reused_connection = reused;
  if (x.record.queue_time == Duration{}) {
    x.record.queue_time = now - x.began;
  }
  to_engine_.clear();
  to_engine_.bytes.append(x.engine_head)
      .append(x.record.replica)
      .append("\r\n\r\n")
      .append(x.engine_body);
  read_requests(now);
}

// An engine may close an idle connection just when it is taken again: then nothing was lost and
// nothing is wrong.
bool Session::try_fresh_connection(Instant now) {
  Exchange& x = *exchange_;
  if (!x.reused_connection || x.reply->any_byte() || x.sent_some) {
    return false;
  }
  release_engine(false);
  send_to(std::string(x.record.replica), true, now);
  return true;
}

void Session::connect_failed(std::string_view why, Instant now) {
  if (state_ != State::kConnecting) {
    return;
  }
  services_.quarantine.on_dead(exchange_->record.replica);
  attempt_failed({.fault = AttemptFault::kRefused,
                  .outcome = Outcome::kUnavailable,
                  .error = {.status = 503,
                            .message = "No engine can be reached for this model.",
                            .type = "service_unavailable",
                            .code = "no_replica"},
                  .why = std::string(why)},
                 now);
}

void Session::connection_lost(Instant now) {
  if (try_fresh_connection(now)) {
    return;
  }
  Exchange& x = *exchange_;
  x.reply->on_close();
  if (x.reply->complete()) {
    relay(now);
  } else if (x.reply->kind() == EngineReply::Kind::kStream && x.reply->said_all()) {
    finish_stream(now);  // only the framing is short
  } else {
    const bool silent = !x.reply->any_byte();
    attempt_failed(
        {.fault = silent ? AttemptFault::kDied : AttemptFault::kFailed,
         .outcome = Outcome::kEngineCut,
         .error = engine_error(502,
                               silent ? "The engine closed the connection without an answer."
                                      : "The engine failed before its reply was whole.",
                               name_of(Outcome::kEngineCut)),
         .why = "the engine closed the connection before its reply was whole",
         .lost = true},
        now);
  }
}

void Session::timed_out(std::string why, Instant now) {
  attempt_failed(
      {.fault = AttemptFault::kTimeout,
       .outcome = Outcome::kTimeout,
       .error = engine_error(504, "The engine did not answer in time.", name_of(Outcome::kTimeout)),
       .why = std::move(why)},
      now);
}

void Session::replica_hangs(const std::string& replica, Instant now) {
  const bool waiting = state_ == State::kConnecting || state_ == State::kReplying;
  if (!waiting || exchange_->record.replica != replica || exchange_->shown) {
    return;
  }
  // It gave nothing and will give nothing: as if it had died.
  attempt_failed({.fault = AttemptFault::kDied,
                  .outcome = Outcome::kTimeout,
                  .error = engine_error(504, "The engine hangs.", name_of(Outcome::kTimeout)),
                  .why = "the replica hangs"},
                 now);
  read_requests(now);
}

bool Session::send_again(const Failure& failure, Instant now) {
  Exchange& x = *exchange_;
  x.pool->attempt_failed(now, *x.ticket, failure.fault, failure.retry_after);
  if (failure.lost && x.fingerprint != 0) {
    services_.quarantine.on_lost(now, x.fingerprint, x.record.replica);
  }
  const bool late = now >= x.deadlines.total ||
                    (waits_for_tokens() && x.tokens_told == 0 && now >= x.deadlines.first_token);
  if (x.shown || x.sent_some || x.plain || late ||
      services_.quarantine.refuses(now, x.fingerprint)) {
    return false;
  }
  const auto again = x.pool->try_again(now, *x.ticket, failure.fault, services_.retry_budget);
  if (!again) {
    return false;
  }
  ++(again->failover ? x.record.failovers : x.record.retries);
  release_engine(x.reply->reusable());
  x.reply.emplace(x.reply_options, services_.reply_reader);
  x.passed.clear();
  send_to(again->replica, false, now);
  return true;
}

void Session::attempt_failed(const Failure& failure, Instant now) {
  if (send_again(failure, now)) {
    return;
  }
  Exchange& x = *exchange_;
  release_engine(false);
  finish_with_pool(now, false, false);
  if (x.committed) {
    end_in_band(failure.error, failure.outcome, failure.why, now);
    return;
  }
  LocalAnswer local = services_.quarantine.refuses(now, x.fingerprint) && failure.lost
                          ? poison_answer()
                          : error_answer(failure.error, failure.outcome);
  if (failure.fault == AttemptFault::kBackpressure || failure.fault == AttemptFault::kRefused) {
    append_retry_after(local.extra_headers, x.pool->come_back_in(now));
  }
  local.error = failure.why;
  answer(local, now);
}

void Session::finish_with_pool(Instant now, bool whole, bool answered) {
  Exchange& x = *exchange_;
  if (!x.ticket) {
    return;
  }
  Completion completion{.output_tokens = x.tokens_told, .whole = whole, .answered = answered};
  if (x.reply) {
    if (x.reply->usage()) {
      completion.prompt_tokens = x.reply->usage()->prompt_tokens;
      completion.output_tokens = x.reply->usage()->completion_tokens;
      x.record.prompt_tokens = x.reply->usage()->prompt_tokens;
    }
    x.record.usage_counted = !x.reply->usage();
    x.record.unreadable = x.reply->unreadable_events();
    completion.cut_by_length = x.reply->finish_reason() == "length" || x.reply->over_budget();
  }
  x.record.output_tokens = completion.output_tokens;
  x.pool->finished(now, *x.ticket, completion);
  x.ticket.reset();
  if (answered) {
    services_.retry_budget.on_success(now);
  }
}

void Session::release_engine(bool reusable) {
  if (engine_held_ || state_ == State::kConnecting) {
    effects_.reserve(2);  // mostly the request ends with it
    effects_.emplace_back(ReleaseEngine{reusable});
  }
  engine_held_ = false;
  to_engine_.clear();
}

}  // namespace spillway
