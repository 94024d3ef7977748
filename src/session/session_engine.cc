// The engine's side of a session: admission, the request on its way out, the reply on its way back.
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

RequestFacts facts_of(const OpenAiRequest& request, QosClass qos_class) {
  RequestFacts facts{.qos_class = qos_class, .max_tokens = request.max_tokens};
  for (const RequestMessage& message : request.messages) {
    const std::int64_t tokens = estimate_tokens(message.text) + kTokensAroundMessage +
                                static_cast<std::int64_t>(message.tool_bytes / 3) +
                                message.other_parts * kTokensOfOtherPart;
    facts.messages.push_back({message.role, tokens});
    facts.prompt_tokens += tokens;
  }
  facts.prompt_tokens +=
      estimate_tokens(request.prompt) + static_cast<std::int64_t>(request.prompt_tokens_given);
  return facts;
}

}  // namespace

void Session::dispatch_to_engine(Instant now) {
  Exchange& x = *exchange_;
  const OpenAiRoute route =
      x.route == Route::kChat ? OpenAiRoute::kChat : OpenAiRoute::kCompletions;
  auto parsed = services_.request_parser.parse(route, x.body);
  if (const auto* error = std::get_if<OpenAiError>(&parsed)) {
    answer(error_answer(*error, Outcome::kInvalid), now);
    return;
  }
  const auto& request = std::get<OpenAiRequest>(parsed);
  x.record.model = request.model;
  x.record.streamed = request.stream;
  x.pool = services_.pools.serving(request.model);
  if (x.pool == nullptr) {
    answer(
        error_answer({.status = 404,
                      .message = fmt::format("The model '{}' does not exist here.", request.model),
                      .param = "model",
                      .code = "model_not_found"},
                     Outcome::kInvalid),
        now);
    return;
  }
  x.record.pool = x.pool->config().name;
  const RequestFacts facts = facts_of(request, x.identity.qos_class);
  x.record.prompt_tokens = facts.prompt_tokens;
  Verdict verdict = x.pool->admit(now, facts);
  if (const auto* refused = std::get_if<Refused>(&verdict)) {
    refuse(*refused, now);
    return;
  }
  auto& admitted = std::get<Admitted>(verdict);
  x.ticket = admitted.ticket;
  x.level = admitted.level;
  x.actions = admitted.plan.actions;
  x.record.prompt_tokens = admitted.plan.prompt_tokens;
  RequestEdits edits{.max_tokens = admitted.plan.max_tokens,
                     .dropped_messages = std::move(admitted.plan.dropped_messages),
                     .include_usage = request.stream};
  if (request.model != x.pool->config().models.front()) {
    edits.model = x.pool->config().models.front();
  }
  if (x.pool->config().priority_scheduling) {
    edits.priority = static_cast<int>(index_of(x.identity.qos_class));
  }
  x.engine_body = apply_edits(request, x.body, edits);
  x.body = std::string();
  std::string& out = x.engine_head;
  out = fmt::format("POST {} HTTP/1.1\r\n", name_of(x.route));
  out.append(x.passed_headers);
  append_field(out, "content-length", std::to_string(x.engine_body.size()));
  append_field(out, "x-request-id", x.identity.request_id);
  append_field(out, "traceparent", to_traceparent(x.identity.trace));
  x.passed_headers = std::string();
  x.reply.emplace(EngineReply::Options{.caller_asked_usage = request.caller_asked_usage},
                  services_.reply_reader);
  out += "host: ";  // completed when the replica is known for good
  send_to(admitted.replica, false, now);
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
  const double seconds = to_seconds(refused.retry_after);
  append_field(local.extra_headers, "retry-after",
               std::to_string(static_cast<int>(std::ceil(seconds))));
  append_field(local.extra_headers, "retry-after-ms",
               std::to_string(static_cast<int>(seconds * 1000)));
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
  x.phase_began = now;
  x.record.queue_time = now - x.began;
  to_engine_.clear();
  to_engine_.bytes.append(x.engine_head)
      .append(x.record.replica)
      .append("\r\n\r\n")
      .append(x.engine_body);
}

// An engine may close an idle connection just when it is taken again: then nothing was lost and
// nothing is wrong.
bool Session::try_fresh_connection(Instant now) {
  Exchange& x = *exchange_;
  if (!x.reused_connection || x.reply->any_byte()) {
    return false;
  }
  release_engine(false);
  send_to(x.record.replica, true, now);
  return true;
}

void Session::connect_failed(std::string_view why, Instant now) {
  if (state_ != State::kConnecting) {
    return;
  }
  Exchange& x = *exchange_;
  if (const auto other = x.pool->fail_over(now, *x.ticket)) {
    send_to(*other, false, now);
    return;
  }
  finish_with_pool(now, false);
  answer(error_answer({.status = 502,
                       .message = "The engine could not be reached.",
                       .type = "service_unavailable",
                       .code = "engine_unreachable"},
                      Outcome::kUnavailable),
         now);
  (void)why;
}

void Session::relay(Instant now) {
  Exchange& x = *exchange_;
  EngineReply& reply = *x.reply;
  x.phase_began = now;
  if (reply.kind() == EngineReply::Kind::kWhole) {
    if (reply.complete()) {
      finish_whole(now);
    }
    return;
  }
  if (reply.kind() != EngineReply::Kind::kStream) {
    return;
  }
  if (const auto& error = reply.first_event_error(); error && !x.committed) {
    // The engine said 200 and then that it failed; the caller gets the failure as a status.
    const int status = error->error_code != 0 ? error->error_code : 502;
    release_engine(false);
    finish_with_pool(now, false);
    answer(error_answer({.status = status,
                         .message = error->error_message,
                         .type = "engine_error",
                         .code = "engine_error"},
                        Outcome::kEngineError),
           now);
    return;
  }
  if (reply.first_event_known() && !x.committed) {
    commit_stream();
  }
  tell_progress(now);
  if (x.committed) {
    flush_stream();
  }
  if (reply.complete()) {
    if (reply.ended_well()) {
      finish_stream(now);
    } else {
      engine_failed(Outcome::kEngineCut, "the engine's stream ended without an end", now);
    }
  }
}

void Session::commit_stream() {
  Exchange& x = *exchange_;
  std::string& out = to_caller_.bytes;
  x.committed = true;
  x.record.status = 200;
  if (x.http10) {
    x.keep_alive = false;  // the end of the connection is the end of the body
  }
  append_status_line(out, 200);
  out.append(x.reply->headers());
  append_field(out, "cache-control", "no-cache");
  append_field(out, "x-accel-buffering", "no");
  if (!x.http10) {
    append_field(out, "transfer-encoding", "chunked");
  }
  append_our_headers(out);
  out.append("\r\n");
}

void Session::flush_stream() {
  Exchange& x = *exchange_;
  if (x.http10) {
    to_caller_.bytes.append(x.passed);
  } else {
    append_chunk(to_caller_.bytes, x.passed);
  }
  x.passed.clear();
}

void Session::tell_progress(Instant now) {
  Exchange& x = *exchange_;
  const std::int64_t tokens = x.reply->content_events();
  if (tokens == 0 || tokens == x.tokens_told) {
    return;
  }
  if (x.tokens_told == 0) {
    x.record.time_to_first_token = now - x.began;
    x.pool->first_token(now, *x.ticket);
  }
  x.pool->more_tokens(*x.ticket, tokens - x.tokens_told);
  x.tokens_told = tokens;
}

void Session::finish_stream(Instant now) {
  Exchange& x = *exchange_;
  if (!x.committed) {
    commit_stream();
  }
  flush_stream();
  if (!x.http10) {
    to_caller_.bytes.append(kLastChunk);
  }
  const bool failed = x.reply->saw_error();
  x.record.error = x.reply->error_message();
  release_engine(x.reply->reusable());
  finish_with_pool(now, !failed);
  end_request(failed ? Outcome::kEngineError : Outcome::kOk, now);
}

void Session::finish_whole(Instant now) {
  Exchange& x = *exchange_;
  EngineReply& reply = *x.reply;
  std::string& out = to_caller_.bytes;
  append_status_line(out, reply.status());
  out.append(reply.headers());
  append_field(out, "content-length", std::to_string(reply.body().size()));
  append_our_headers(out);
  out.append("\r\n").append(reply.body());
  x.record.status = reply.status();
  const bool ok = reply.status() < 400 && !reply.saw_error();
  if (ok) {
    x.record.time_to_first_token = now - x.began;  // the caller sees nothing earlier
    x.pool->first_token(now, *x.ticket);
  } else {
    x.record.error =
        fmt::format("the engine answered {}: {}", reply.status(), reply.error_message());
  }
  release_engine(reply.reusable());
  finish_with_pool(now, ok);
  end_request(ok ? Outcome::kOk : Outcome::kEngineError, now);
}

void Session::engine_failed(Outcome outcome, const std::string& why, Instant now) {
  Exchange& x = *exchange_;
  const bool was_silent = !x.reply->any_byte();
  release_engine(false);
  finish_with_pool(now, false);
  const int status = outcome == Outcome::kTimeout ? 504 : 502;
  const OpenAiError error{
      .status = status,
      .message = outcome == Outcome::kTimeout ? "The engine did not answer in time."
                 : was_silent ? "The engine closed the connection without an answer."
                              : "The engine failed before its reply was whole.",
      .type = "engine_error",
      .code = std::string(name_of(outcome))};
  if (!x.committed) {
    LocalAnswer local = error_answer(error, outcome);
    local.error = why;
    answer(local, now);
    return;
  }
  // The status is out: the failure is said in the stream, so that half an answer is not taken for a
  // whole one.
  append_sse_data(x.passed, to_json(error));
  append_sse_data(x.passed, kSseDone);
  flush_stream();
  if (!x.http10) {
    to_caller_.bytes.append(kLastChunk);
  }
  x.record.error = why;
  end_request(outcome, now);
}

void Session::finish_with_pool(Instant now, bool whole) {
  Exchange& x = *exchange_;
  if (!x.ticket) {
    return;
  }
  Completion completion{.output_tokens = x.tokens_told, .whole = whole};
  if (x.reply) {
    if (x.reply->usage()) {
      completion.prompt_tokens = x.reply->usage()->prompt_tokens;
      completion.output_tokens = x.reply->usage()->completion_tokens;
      x.record.prompt_tokens = x.reply->usage()->prompt_tokens;
    }
    completion.cut_by_length = x.reply->finish_reason() == "length";
  }
  x.record.output_tokens = completion.output_tokens;
  x.pool->finished(now, *x.ticket, completion);
  x.ticket.reset();
}

void Session::release_engine(bool reusable) {
  if (engine_held_ || state_ == State::kConnecting) {
    effects_.emplace_back(ReleaseEngine{reusable});
  }
  engine_held_ = false;
  to_engine_.clear();
}

}  // namespace spillway
