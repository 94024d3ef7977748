#include "session/session.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace spillway {
namespace {

// What a caller may send ahead of its turn (pipelining) before its reading stops.
constexpr std::size_t kInputHigh = 64 * 1024;

bool is_dropped_request_field(std::string_view name, bool drop_authorization) {
  static constexpr std::string_view kOurs[] = {
      "host", "expect", "x-request-id", "traceparent", "x-spillway-class", "accept-encoding"};
  if (drop_authorization && equals_ignoring_case(name, "authorization")) {
    return true;
  }
  return is_hop_by_hop(name) || std::ranges::any_of(kOurs, [&](std::string_view n) {
           return equals_ignoring_case(n, name);
         });
}

OpenAiError not_found(std::string message) {
  return {.status = 404, .message = std::move(message), .code = "not_found"};
}

}  // namespace

Session::Session(Services& services, Instant now) : services_(services), idle_since_(now) {}

void Session::feed(Side side, std::string_view bytes, Instant now) {
  if (side == Side::kCaller) {
    if (state_ != State::kClosing) {
      in_.append(bytes);
      read_requests(now);
    }
    return;
  }
  if (!engine_held_ || state_ != State::kReplying) {
    return;  // late bytes of a connection that was given up
  }
  Exchange& x = *exchange_;
  const Status status = x.reply->feed(bytes, x.passed);
  if (!status) {
    engine_failed(Outcome::kEngineError, status.error().message, now);
    return;
  }
  relay(now);
  read_requests(now);
}

void Session::read_requests(Instant now) {
  while ((state_ == State::kHead && read_head(now)) || (state_ == State::kBody && read_body(now))) {
  }
}

bool Session::read_head(Instant now) {
  // RFC 9112, section 2.2: empty lines before a request line are skipped.
  while (in_.starts_with("\r\n")) {
    in_.erase(0, 2);
    head_searched_ = 0;
  }
  const Limits& limits = services_.snapshot->config.limits;
  const auto end = find_head_end(in_, head_searched_);
  if (!end) {
    head_searched_ = in_.size();
    if (in_.size() > static_cast<std::size_t>(limits.header_bytes)) {
      begin_exchange(nullptr, now);
      answer(error_answer({.status = 431, .message = "The request's header is too large."},
                          Outcome::kInvalid),
             now);
    }
    return false;
  }
  const std::string bytes = in_.substr(0, *end);
  in_.erase(0, *end);
  head_searched_ = 0;
  auto parsed = parse_request_head(bytes, {.bytes = static_cast<std::size_t>(limits.header_bytes)});
  if (const auto* error = std::get_if<HttpError>(&parsed)) {
    begin_exchange(nullptr, now);
    exchange_->keep_alive = false;
    answer(error_answer({.status = error->status,
                         .message = "The request is not HTTP: " + error->message + "."},
                        Outcome::kInvalid),
           now);
    return false;
  }
  const auto& head = std::get<RequestHead>(parsed);
  begin_exchange(&head, now);
  Exchange& x = *exchange_;
  if (head.framing.kind == BodyFraming::Kind::kLength &&
      head.framing.length > static_cast<std::uint64_t>(limits.body_bytes)) {
    x.keep_alive = false;
    answer(error_answer({.status = 413,
                         .message = fmt::format("The body has {} bytes; at most {} are accepted.",
                                                head.framing.length, limits.body_bytes),
                         .code = "body_too_large"},
                        Outcome::kInvalid),
           now);
    return false;
  }
  x.body_decoder.emplace(head.framing);
  if (head.expects_continue && !x.body_decoder->done()) {
    to_caller_.bytes += "HTTP/1.1 100 Continue\r\n\r\n";
  }
  state_ = State::kBody;
  return true;
}

bool Session::read_body(Instant now) {
  Exchange& x = *exchange_;
  const auto limit = static_cast<std::size_t>(x.snapshot->config.limits.body_bytes);
  std::size_t consumed = 0;
  while (!x.body_decoder->done()) {
    auto step = x.body_decoder->decode(std::string_view(in_).substr(consumed));
    if (const auto* error = std::get_if<HttpError>(&step)) {
      x.keep_alive = false;
      answer(error_answer({.status = error->status,
                           .message = "The body is not HTTP: " + error->message + "."},
                          Outcome::kInvalid),
             now);
      return false;
    }
    const auto& piece = std::get<BodyDecoder::Piece>(step);
    x.body.append(piece.payload);
    if (x.body.size() > limit) {
      x.keep_alive = false;
      answer(error_answer({.status = 413,
                           .message = fmt::format(
                               "The body is larger than the {} bytes that are accepted.", limit),
                           .code = "body_too_large"},
                          Outcome::kInvalid),
             now);
      return false;
    }
    consumed += piece.consumed;
    if (piece.consumed == 0) {
      break;
    }
  }
  in_.erase(0, consumed);
  if (!x.body_decoder->done()) {
    return false;
  }
  dispatch(now);
  return true;
}

void Session::begin_exchange(const RequestHead* head, Instant now) {
  exchange_ = std::make_unique<Exchange>();
  Exchange& x = *exchange_;
  x.snapshot = services_.snapshot;
  x.began = now;
  x.phase_began = now;
  x.identity = anonymous(head, services_.rng);
  x.record.started = services_.wall_at(now);
  x.record.request_id = x.identity.request_id;
  x.record.trace_id = x.identity.trace.trace_id;
  x.record.span_id = x.identity.trace.span_id;
  x.record.parent_span_id = x.identity.parent_span_id;
  x.record.sampled = x.identity.trace.sampled;
  x.record.route = name_of(Route::kUnknown);
  if (head == nullptr) {
    x.keep_alive = false;
    return;
  }
  x.keep_alive = head->keep_alive && !draining_;
  x.http10 = head->minor_version == 0;
  x.record.method = head->method;
  x.route = find_route(head->method, head->path);
  x.record.route = name_of(x.route);
  if (x.route == Route::kChat || x.route == Route::kCompletions) {
    if (const auto error = classify(*head, x.snapshot->config, x.identity)) {
      // The body is read first, so that the connection stays usable; dispatch() finds the answer
      // waiting.
      x.record.error = error->message;
      x.record.status = error->status;
      x.passed_headers = to_json(*error);
      x.record.outcome = Outcome::kInvalid;
      return;
    }
    for (const HeaderField& field : head->fields) {
      if (!is_dropped_request_field(field.name, !x.snapshot->config.tenants.empty())) {
        append_field(x.passed_headers, field.name, field.value);
      }
    }
  }
}

void Session::dispatch(Instant now) {
  Exchange& x = *exchange_;
  x.record.tenant = x.identity.tenant;
  x.record.qos_class = x.identity.qos_class;
  if (x.record.outcome == Outcome::kInvalid) {
    answer({.status = x.record.status,
            .body = std::exchange(x.passed_headers, {}),
            .outcome = Outcome::kInvalid,
            .error = x.record.error},
           now);
    return;
  }
  if (x.route == Route::kChat || x.route == Route::kCompletions) {
    dispatch_to_engine(now);
  } else {
    dispatch_local(now);
  }
}

void Session::dispatch_local(Instant now) {
  switch (exchange_->route) {
    case Route::kLive:
      answer({.body = "ok\n", .content_type = "text/plain"}, now);
      return;
    case Route::kReady: {
      const bool ready = !services_.draining && services_.pools.all_serving(now);
      answer({.status = ready ? 200 : 503,
              .body = ready                ? "ready\n"
                      : services_.draining ? "draining\n"
                                           : "a pool has no replica\n",
              .content_type = "text/plain"},
             now);
      return;
    }
    case Route::kModels: {
      std::string list;
      for (const PoolConfig& pool : exchange_->snapshot->config.pools) {
        for (const std::string& model : pool.models) {
          list += fmt::format(R"({}{{"id":{},"object":"model","created":0,"owned_by":"spillway"}})",
                              list.empty() ? "" : ",", json_string(model));
        }
      }
      answer({.body = R"({"object":"list","data":[)" + list + "]}"}, now);
      return;
    }
    case Route::kWrongMethod:
      answer(error_answer({.status = 405, .message = "This path has another method."},
                          Outcome::kInvalid),
             now);
      return;
    default:
      answer(error_answer(not_found("There is no such path."), Outcome::kInvalid), now);
  }
}

void Session::append_our_headers(std::string& out) const {
  const Exchange& x = *exchange_;
  append_field(out, "x-request-id", x.identity.request_id);
  if (x.pool != nullptr) {
    append_field(out, "x-spillway-level", std::to_string(x.level));
    if (!x.actions.empty()) {
      append_field(out, "x-spillway-actions", x.actions);
    }
  }
  if (!x.keep_alive) {
    append_field(out, "connection", "close");
  } else if (x.http10) {
    append_field(out, "connection", "keep-alive");
  }
}

void Session::answer(const LocalAnswer& local, Instant now) {
  Exchange& x = *exchange_;
  std::string& out = to_caller_.bytes;
  append_status_line(out, local.status);
  append_field(out, "content-type", local.content_type);
  append_field(out, "content-length", std::to_string(local.body.size()));
  append_our_headers(out);
  out.append(local.extra_headers).append("\r\n");
  if (x.record.method != "HEAD") {
    out.append(local.body);
  }
  x.record.status = local.status;
  x.record.error = local.error;
  end_request(local.outcome, now);
}

void Session::end_request(Outcome outcome, Instant now) {
  Exchange& x = *exchange_;
  x.record.outcome = outcome;
  x.record.total_time = now - x.began;
  x.record.level = x.level;
  x.record.actions = x.actions;
  const bool keep = x.keep_alive && !draining_;
  effects_.emplace_back(RequestEnded{std::move(x.record)});
  exchange_.reset();
  idle_since_ = now;
  state_ = State::kHead;
  if (!keep) {
    close_caller(false);
  }
}

void Session::close_caller(bool abort) {
  state_ = State::kClosing;
  in_.clear();
  effects_.emplace_back(CloseCaller{abort});
}

void Session::closed(Side side, Instant now) {
  if (side == Side::kCaller) {
    if (exchange_) {
      release_engine(false);
      finish_with_pool(now, false);
      exchange_->record.error = "the caller went away";
      exchange_->keep_alive = false;
      end_request(Outcome::kCallerGone, now);
    } else if (state_ != State::kClosing) {
      close_caller(false);
    }
    to_caller_.clear();
    return;
  }
  if (!engine_held_ || state_ != State::kReplying) {
    return;
  }
  if (try_fresh_connection(now)) {
    return;
  }
  exchange_->reply->on_close();
  if (exchange_->reply->complete()) {
    relay(now);
  } else if (exchange_->reply->kind() == EngineReply::Kind::kStream &&
             exchange_->reply->saw_done()) {
    finish_stream(now);  // all was said; only the framing is short
  } else {
    engine_failed(Outcome::kEngineCut,
                  "the engine closed the connection before its reply was whole", now);
  }
  read_requests(now);
}

void Session::wake(Instant now) {
  const auto due = deadline();
  if (!due || now < *due) {
    return;
  }
  switch (state_) {
    case State::kHead:
      if (in_.empty()) {
        close_caller(false);
        return;
      }
      begin_exchange(nullptr, now);
      answer(error_answer({.status = 408, .message = "The request's header did not come in time."},
                          Outcome::kInvalid),
             now);
      return;
    case State::kBody:
      exchange_->keep_alive = false;
      answer(error_answer({.status = 408, .message = "The request's body did not come in time."},
                          Outcome::kInvalid),
             now);
      return;
    case State::kConnecting:
      connect_failed("the connection was not made in time", now);
      return;
    case State::kReplying:
      engine_failed(Outcome::kTimeout, "the engine was silent for too long", now);
      read_requests(now);
      return;
    case State::kClosing:
      effects_.emplace_back(CloseCaller{true});
  }
}

void Session::drain(Instant /*now*/) {
  draining_ = true;
  if (state_ == State::kHead && in_.empty()) {
    close_caller(false);
  }
}

std::string_view Session::output(Side side) const {
  return side == Side::kCaller ? to_caller_.rest() : to_engine_.rest();
}

void Session::sent(Side side, std::size_t bytes) {
  Outbox& box = side == Side::kCaller ? to_caller_ : to_engine_;
  box.sent += bytes;
  if (box.sent == box.bytes.size()) {
    box.clear();
  } else if (box.sent > kOutputHigh) {
    box.bytes.erase(0, box.sent);
    box.sent = 0;
  }
}

bool Session::wants_input(Side side) const {
  if (side == Side::kEngine) {
    return engine_held_ && to_caller_.rest().size() < kOutputHigh;
  }
  // While a request is being served the caller is read on, to notice when it goes; what it sends
  // ahead is bounded.
  const bool reading_a_request = state_ == State::kHead || state_ == State::kBody;
  return state_ != State::kClosing && (reading_a_request || in_.size() < kInputHigh);
}

std::optional<Instant> Session::deadline() const {
  const Limits& limits =
      exchange_ ? exchange_->snapshot->config.limits : services_.snapshot->config.limits;
  switch (state_) {
    case State::kHead:
    case State::kClosing:
      return idle_since_ + limits.idle_timeout;
    case State::kBody:
      return exchange_->began + limits.request_timeout;
    case State::kConnecting:
      return exchange_->phase_began + limits.connect_timeout;
    case State::kReplying:
      break;
  }
  const Exchange& x = *exchange_;
  if (x.committed) {
    return x.phase_began + limits.idle_timeout;  // between two tokens
  }
  return x.began + (x.record.streamed ? limits.first_token_timeout : limits.request_timeout);
}

std::vector<Effect> Session::take_effects() {
  return std::exchange(effects_, {});
}

}  // namespace spillway
