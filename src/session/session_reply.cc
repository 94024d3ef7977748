// From the engine to the caller: when the status goes out, what is passed on, how a reply ends.
#include <utility>

#include <fmt/format.h>

#include "session/session.h"

namespace spillway {
namespace {

// What a stream may say before its content (the role, comments) is held until then, up to this.
constexpr std::size_t kHeldMax = 64 * 1024;

bool is_backpressure(int status) {
  return status == 429 || status == 503 || status == 529;
}

std::string in_words(std::string message, std::string_view otherwise) {
  return message.empty() ? std::string(otherwise) : message;
}

}  // namespace

void Session::relay(Instant now) {
  Exchange& x = *exchange_;
  switch (x.reply->kind()) {
    case EngineReply::Kind::kUnknown:
      return;
    case EngineReply::Kind::kWhole:
      if (x.reply->complete() && !ended_badly(now)) {
        finish_whole(now);
      }
      return;
    case EngineReply::Kind::kStream:
      relay_stream(now);
  }
}

// An error of the engine's, as a status or as the first event: true when it has been dealt with.
bool Session::ended_badly(Instant now) {
  Exchange& x = *exchange_;
  const EngineReply& reply = *x.reply;
  const bool stream = reply.kind() == EngineReply::Kind::kStream;
  int status = reply.status();
  if (stream || reply.is_no_answer()) {
    // It said 200 and then that it failed; the caller gets the failure as a status.
    const int code = stream ? reply.first_event_error()->error_code : reply.error_code();
    status = code != 0 ? code : 502;
  }
  // What an engine says about a caller's mistake is an answer.
  if (status < 429 || (status < 500 && !is_backpressure(status))) {
    if (!stream && !reply.is_no_answer()) {
      return false;
    }
    release_engine(reply.reusable());
    finish_with_pool(now, false, true);
    answer(
        error_answer({.status = status, .message = reply.error_message(), .code = "engine_error"},
                     Outcome::kEngineError),
        now);
    return true;
  }
  const Failure failure{
      .fault = is_backpressure(status) ? AttemptFault::kBackpressure : AttemptFault::kFailed,
      .outcome = Outcome::kEngineError,
      .error = {.status = status,
                .message = in_words(reply.error_message(), "The engine gave no answer."),
                .type = "engine_error",
                .code = "engine_error"},
      .why = fmt::format("the engine answered {}: {}", status, reply.error_message()),
      .retry_after = reply.retry_after()};
  const bool its_own_words =
      !stream && !x.committed && reply.status() >= 400 && reply.body_is_json();
  if (!its_own_words) {
    attempt_failed(failure, now);
    return true;
  }
  return send_again(failure, now);  // else its own answer is passed on
}

void Session::relay_stream(Instant now) {
  Exchange& x = *exchange_;
  EngineReply& reply = *x.reply;
  if (reply.first_event_error() && !x.shown) {
    if (x.committed) {
      const auto& error = *reply.first_event_error();
      const bool full = is_backpressure(error.error_code);
      attempt_failed({.fault = full ? AttemptFault::kBackpressure : AttemptFault::kFailed,
                      .outcome = Outcome::kEngineError,
                      .error = {.status = 502,
                                .message = in_words(error.error_message, "The engine failed."),
                                .type = "engine_error",
                                .code = "engine_error"},
                      .why = "the engine's first event was an error"},
                     now);
    } else {
      ended_badly(now);
    }
    return;
  }
  tell_progress(now);
  if (x.shown || reply.has_begun() || x.passed.size() > kHeldMax) {
    if (!x.committed) {
      commit_stream(reply.headers());
    }
    x.shown = true;
    if (!x.passed.empty()) {
      x.spoken_at = now;
    }
    flush_stream();
  }
  if (reply.over_budget()) {
    stop_at_budget(now);
  } else if (reply.complete()) {
    if (reply.ended_well()) {
      finish_stream(now);
    } else {
      attempt_failed({.fault = AttemptFault::kFailed,
                      .outcome = Outcome::kEngineCut,
                      .error = {.status = 502,
                                .message = "The engine failed before its reply was whole.",
                                .type = "engine_error",
                                .code = std::string(name_of(Outcome::kEngineCut))},
                      .why = "the engine's stream ended without an end",
                      .lost = true},
                     now);
    }
  }
}

void Session::commit_stream(std::string_view engine_headers) {
  Exchange& x = *exchange_;
  std::string& out = to_caller_.bytes;
  x.committed = true;
  x.record.status = 200;
  if (x.http10) {
    x.keep_alive = false;  // the end of the connection is the end of the body
  }
  append_status_line(out, 200);
  out.append(engine_headers);
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

// A sign of life for everything between us and the caller that counts silence. One line end only:
// an empty line behind it would end an event, and some clients would see one (WHATWG HTML, 9.2.6).
void Session::send_comment(Instant now) {
  Exchange& x = *exchange_;
  x.spoken_at = now;
  if (!x.committed) {
    commit_stream("content-type: text/event-stream; charset=utf-8\r\n");
  }
  std::string held = std::exchange(x.passed, ": keep-alive\n");
  flush_stream();
  x.passed = std::move(held);
}

void Session::tell_progress(Instant now) {
  Exchange& x = *exchange_;
  const std::int64_t tokens = x.reply->content_events();
  if (tokens == 0 || tokens == x.tokens_told) {
    return;
  }
  x.content_at = now;
  if (x.tokens_told == 0) {
    x.record.time_to_first_token = now - x.began;
    x.pool->first_token(now, *x.ticket);
  }
  x.pool->more_tokens(now, *x.ticket, tokens - x.tokens_told);
  x.tokens_told = tokens;
}

// The reply is as long as it may be, and the engine goes on: we end it, as the engine would have.
void Session::stop_at_budget(Instant now) {
  Exchange& x = *exchange_;
  append_sse_data(x.passed, length_chunk(x.reply->chunk(), x.replies));
  if (x.reply_options.caller_asked_usage) {
    append_sse_data(x.passed,
                    usage_chunk_like(x.reply->chunk(), {.prompt_tokens = x.record.prompt_tokens,
                                                        .completion_tokens = x.tokens_told}));
  }
  append_sse_data(x.passed, kSseDone);
  flush_stream();
  if (!x.http10) {
    to_caller_.bytes.append(kLastChunk);
  }
  x.actions += (x.actions.empty() ? "" : " ") + fmt::format("stopped={}", x.tokens_told);
  release_engine(false);
  finish_with_pool(now, true, true);
  end_request(Outcome::kOk, now);
}

void Session::finish_stream(Instant now) {
  Exchange& x = *exchange_;
  if (!x.committed) {
    commit_stream(x.reply->headers());
  }
  flush_stream();
  if (!x.http10) {
    to_caller_.bytes.append(kLastChunk);
  }
  const bool failed = x.reply->saw_error();
  x.record.error = x.reply->error_message();
  if (failed) {
    x.pool->attempt_failed(now, *x.ticket, AttemptFault::kFailed);
  }
  release_engine(x.reply->reusable());
  finish_with_pool(now, !failed, !failed);
  end_request(failed ? Outcome::kEngineError : Outcome::kOk, now);
}

void Session::finish_whole(Instant now) {
  Exchange& x = *exchange_;
  EngineReply& reply = *x.reply;
  if (x.committed) {
    // A comment has gone out already, and then the engine did not stream.
    release_engine(reply.reusable());
    finish_with_pool(now, false, true);
    end_in_band({.status = 502,
                 .message = in_words(reply.error_message(), "The engine did not stream its reply."),
                 .type = "engine_error",
                 .code = "engine_error"},
                Outcome::kEngineError, fmt::format("the engine answered {}", reply.status()), now);
    return;
  }
  std::string& out = to_caller_.bytes;
  append_status_line(out, reply.status());
  out.append(reply.headers());
  append_field(out, "content-length", std::to_string(reply.body().size()));
  if (is_backpressure(reply.status())) {
    append_retry_after(out, x.pool->come_back_in(now));
  }
  append_our_headers(out);
  out.append("\r\n").append(reply.body());
  x.record.status = reply.status();
  const bool ok = reply.status() < 400;
  if (ok) {
    x.record.time_to_first_token = now - x.began;  // the caller sees nothing earlier
    x.pool->first_token(now, *x.ticket);
  } else {
    x.record.error =
        fmt::format("the engine answered {}: {}", reply.status(), reply.error_message());
  }
  release_engine(reply.reusable());
  finish_with_pool(now, ok, reply.status() < 500 && !is_backpressure(reply.status()));
  end_request(ok ? Outcome::kOk : Outcome::kEngineError, now);
}

// The status is out: the failure is said in the stream, so that half an answer is not taken for a
// whole one.
void Session::end_in_band(const OpenAiError& error, Outcome outcome, const std::string& why,
                          Instant now) {
  Exchange& x = *exchange_;
  x.passed.clear();  // what was held was of an attempt that failed
  if (x.pattern == "/v1/responses") {
    x.passed += "event: error\n";
  }
  append_sse_data(x.passed, to_json(error));
  if (x.route != Route::kForward) {
    append_sse_data(x.passed, kSseDone);
  }
  flush_stream();
  if (!x.http10) {
    to_caller_.bytes.append(kLastChunk);
  }
  x.record.error = why;
  end_request(outcome, now);
}

}  // namespace spillway
