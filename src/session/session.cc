#include "session/session.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "wire/multipart.h"

namespace spillway {
namespace {

// What a caller may send ahead of its turn (pipelining) before its reading stops.
constexpr std::size_t kInputHigh = 64 * 1024;

constexpr std::string_view kFirstTokenTimeout = "x-spillway-first-token-timeout-ms";
constexpr std::string_view kTotalTimeout = "x-spillway-timeout-ms";

bool is_dropped_request_field(std::string_view name, bool drop_authorization) {
  static constexpr std::string_view kOurs[] = {"host", "expect", "x-request-id", "traceparent",
                                               "accept-encoding"};
  constexpr std::string_view kPrefix = "x-spillway-";
  if (drop_authorization && equals_ignoring_case(name, "authorization")) {
    return true;
  }
  return is_hop_by_hop(name) || equals_ignoring_case(name.substr(0, kPrefix.size()), kPrefix) ||
         std::ranges::any_of(kOurs,
                             [&](std::string_view n) { return equals_ignoring_case(n, name); });
}

OpenAiError not_found(std::string message) {
  return {.status = 404, .message = std::move(message), .code = "not_found"};
}

// A timeout that the caller asks for. Above the limit it is cut to it.
std::optional<OpenAiError> read_timeout(const RequestHead& head, std::string_view name,
                                        Duration most, std::optional<Duration>& out) {
  const auto text = find_field(head.fields, name);
  if (!text) {
    return std::nullopt;
  }
  std::int64_t ms = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), ms);
  if (error != std::errc{} || end != text->data() + text->size() || ms <= 0) {
    return OpenAiError{.message = fmt::format("{} must be a whole number of milliseconds.", name),
                       .param = std::string(name)};
  }
  const std::int64_t most_ms = most / std::chrono::milliseconds(1);
  out = std::chrono::milliseconds(std::min(ms, most_ms));
  return std::nullopt;
}

std::string model_json(const std::string& model) {
  return fmt::format(R"({{"id":{},"object":"model","created":0,"owned_by":"spillway"}})",
                     json_string(model));
}

}  // namespace

Session::Session(Services& services, Instant now) : services_(services), idle_since_(now) {}

void Session::feed(Side side, std::string_view bytes, Instant now) {
  if (side == Side::kCaller) {
    if (state_ != State::kClosing) {
      if (in_.empty()) {
        head_began_ = now;
      }
      in_.append(bytes);
      read_requests(now);
    }
    return;
  }
  if (!engine_held_ || state_ != State::kReplying) {
    return;  // late bytes of a connection that was given up
  }
  Exchange& x = *exchange_;
  std::optional<std::int64_t> budget = x.budget;
  if (const auto hard = x.plain ? std::nullopt : x.pool->hard_budget(x.identity.qos_class)) {
    budget = std::min(budget.value_or(*hard * x.replies), *hard * x.replies);
  }
  const Status status = x.reply->feed(bytes, x.passed, budget);
  if (!status) {
    attempt_failed({.fault = AttemptFault::kFailed,
                    .outcome = Outcome::kEngineError,
                    .error = {.status = 502,
                              .message = "The engine's reply is broken.",
                              .type = "engine_error",
                              .code = "engine_error"},
                    .why = status.error().message},
                   now);
  } else {
    relay(now);
  }
  read_requests(now);
}

void Session::read_requests(Instant now) {
  while ((state_ == State::kHead && read_head(now)) || (state_ == State::kBody && read_body(now))) {
  }
  if (exchange_ && exchange_->uploading && state_ == State::kReplying) {
    pass_upload(now);
  }
}

// Ends a request that cannot be served, with an answer of ours.
void Session::refuse_request(OpenAiError error, bool keep, Instant now) {
  exchange_->keep_alive = exchange_->keep_alive && keep;
  answer(error_answer(error, Outcome::kInvalid), now);
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
      refuse_request({.status = 431, .message = "The request's header is too large."}, false, now);
    }
    return false;
  }
  auto parsed = parse_request_head(std::string_view(in_).substr(0, *end),
                                   {.bytes = static_cast<std::size_t>(limits.header_bytes)});
  const auto* read = std::get_if<RequestHead>(&parsed);
  begin_exchange(read, now);
  in_.erase(0, *end);  // no view into the head is used from here on
  head_searched_ = 0;
  head_began_ = now;  // of the next one, if it is here already
  if (const auto* error = std::get_if<HttpError>(&parsed)) {
    refuse_request(
        {.status = error->status, .message = "The request is not HTTP: " + error->message + "."},
        false, now);
    return false;
  }
  const RequestHead& head = *read;
  Exchange& x = *exchange_;
  // An upload is passed on while it arrives, so its size is the engine's business.
  if (x.route != Route::kUpload && head.framing.kind == BodyFraming::Kind::kLength &&
      head.framing.length > static_cast<std::uint64_t>(limits.body_bytes)) {
    refuse_request({.status = 413,
                    .message = fmt::format("The body has {} bytes; at most {} are accepted.",
                                           head.framing.length, limits.body_bytes),
                    .code = "body_too_large"},
                   false, now);
    return false;
  }
  x.framing = head.framing;
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
  const bool upload = x.route == Route::kUpload && !x.refusal;
  std::size_t consumed = 0;
  while (!x.body_decoder->done()) {
    auto step = x.body_decoder->decode(std::string_view(in_).substr(consumed));
    if (const auto* error = std::get_if<HttpError>(&step)) {
      refuse_request(
          {.status = error->status, .message = "The body is not HTTP: " + error->message + "."},
          false, now);
      return false;
    }
    const auto& piece = std::get<BodyDecoder::Piece>(step);
    x.body.append(piece.payload);
    if (x.body.size() > limit && !upload) {
      refuse_request(
          {.status = 413,
           .message = fmt::format("The body is larger than the {} bytes that are accepted.", limit),
           .code = "body_too_large"},
          false, now);
      return false;
    }
    consumed += piece.consumed;
    if (piece.consumed == 0) {
      break;
    }
  }
  in_.erase(0, consumed);
  if (upload) {
    return find_upload_pool(now);
  }
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
  if (head == nullptr) {
    x.keep_alive = false;
    return;
  }
  x.keep_alive = head->keep_alive && !draining_;
  x.http10 = head->minor_version == 0;
  x.record.method = head->method;
  const FoundRoute found = find_route(head->method, head->path);
  x.route = found.route;
  x.pattern = found.pattern;
  if (!goes_to_an_engine(x.route)) {
    x.path = head->path;
    return;
  }
  const Config& config = x.snapshot->config;
  const Duration most = config.limits.caller_timeout_max;
  x.refusal = classify(*head, config, x.identity);
  for (const auto& [name, out] :
       {std::pair{kFirstTokenTimeout, &x.asked_first_token}, {kTotalTimeout, &x.asked_total}}) {
    if (auto error = read_timeout(*head, name, most, *out); error && !x.refusal) {
      x.refusal = std::move(error);
    }
  }
  if (x.route == Route::kUpload && !x.refusal) {
    const auto boundary = multipart_boundary(find_field(head->fields, "content-type").value_or(""));
    if (boundary) {
      x.boundary = *boundary;
    } else {
      x.refusal = OpenAiError{.status = 415,
                              .message = "This path takes multipart/form-data.",
                              .code = "unsupported_media_type"};
    }
  }
  x.passed_headers.reserve(512);
  for (const HeaderField& field : head->fields) {
    if (!is_dropped_request_field(field.name, !config.tenants.empty()) &&
        !is_named_by_connection(head->fields, field.name)) {
      append_field(x.passed_headers, field.name, field.value);
    }
  }
}

void Session::dispatch(Instant now) {
  Exchange& x = *exchange_;
  x.record.tenant = x.identity.tenant;
  x.record.qos_class = x.identity.qos_class;
  if (x.refusal) {
    // The body was read first, so that the connection stays usable.
    refuse_request(*x.refusal, true, now);
  } else if (goes_to_an_engine(x.route)) {
    dispatch_to_engine(now);
  } else {
    dispatch_local(now);
  }
}

void Session::dispatch_local(Instant now) {
  const Exchange& x = *exchange_;
  switch (x.route) {
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
      for (const PoolConfig& pool : x.snapshot->config.pools) {
        for (const std::string& model : pool.models) {
          list += (list.empty() ? "" : ",") + model_json(model);
        }
      }
      answer({.body = R"({"object":"list","data":[)" + list + "]}"}, now);
      return;
    }
    case Route::kModel: {
      const std::string model = x.path.substr(std::string_view("/v1/models/").size());
      if (services_.pools.serving(model) == nullptr) {
        refuse_request({.status = 404,
                        .message = fmt::format("The model '{}' does not exist here.", model),
                        .param = "model",
                        .code = "model_not_found"},
                       true, now);
        return;
      }
      answer({.body = model_json(model)}, now);
      return;
    }
    case Route::kWrongMethod:
      refuse_request({.status = 405, .message = "This path has another method."}, true, now);
      return;
    default:
      refuse_request(not_found("There is no such path."), true, now);
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
  x.record.request_id = std::move(x.identity.request_id);
  x.record.trace_id = std::move(x.identity.trace.trace_id);
  x.record.span_id = std::move(x.identity.trace.span_id);
  x.record.parent_span_id = std::move(x.identity.parent_span_id);
  x.record.sampled = x.identity.trace.sampled;
  x.record.route = x.pattern;
  x.record.outcome = outcome;
  x.record.total_time = now - x.began;
  x.record.level = x.level;
  x.record.actions = x.actions;
  // What is left of an upload that nobody wants would be taken for the next request.
  const bool keep = x.keep_alive && !draining_ && !x.uploading;
  const bool read_whole = x.body_decoder && x.body_decoder->done();
  effects_.emplace_back(RequestEnded{std::move(x.record)});
  exchange_.reset();
  idle_since_ = now;
  state_ = State::kHead;
  if (!keep) {
    close_caller(!read_whole);
  }
}

void Session::close_caller(bool linger) {
  state_ = State::kClosing;
  in_.clear();
  effects_.emplace_back(CloseCaller{.linger = linger});
}

void Session::closed(Side side, Instant now) {
  if (side == Side::kEngine) {
    if (engine_held_ && state_ == State::kReplying) {
      connection_lost(now);
      read_requests(now);
    }
    return;
  }
  if (state_ == State::kBody || (state_ == State::kHead && !in_.empty())) {
    // It may still listen: closing one's side for writing is allowed.
    if (!exchange_) {
      begin_exchange(nullptr, now);
    }
    refuse_request({.status = 400, .message = "The request ended before it was whole."}, false,
                   now);
    return;
  }
  if (exchange_) {
    release_engine(false);
    finish_with_pool(now, false, false);
    exchange_->record.error = "the caller went away";
    exchange_->keep_alive = false;
    end_request(Outcome::kCallerGone, now);
  } else if (state_ != State::kClosing) {
    close_caller(false);
  }
  to_caller_.clear();
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
      refuse_request({.status = 408, .message = "The request's header did not come in time."},
                     false, now);
      return;
    case State::kBody:
      refuse_request({.status = 408, .message = "The request's body did not come in time."}, false,
                     now);
      return;
    case State::kConnecting:
    case State::kReplying:
      wake_waiting(now);
      read_requests(now);
      return;
    case State::kClosing:
      effects_.emplace_back(CloseCaller{true});
  }
}

void Session::wake_waiting(Instant now) {
  const Exchange& x = *exchange_;
  const Limits& limits = x.snapshot->config.limits;
  if (now >= x.deadlines.total) {
    timed_out("the reply took longer than it may in all", now);
  } else if (waits_for_tokens() && x.tokens_told == 0 && now >= x.deadlines.first_token) {
    timed_out("the first token did not come in time", now);
  } else if (waits_for_tokens() && x.tokens_told > 0 &&
             now >= x.content_at + limits.between_tokens_timeout) {
    timed_out("the next token did not come in time", now);
  } else if (state_ == State::kConnecting && now >= x.phase_began + limits.connect_timeout) {
    connect_failed("the connection was not made in time", now);
  } else if (waits_for_tokens() && now >= x.spoken_at + limits.keepalive_interval) {
    send_comment(now);
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
  if (exchange_ && exchange_->uploading) {
    return state_ != State::kClosing && in_.size() < kInputHigh &&
           to_engine_.rest().size() < kOutputHigh;
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
      return in_.empty() ? idle_since_ + limits.idle_timeout : head_began_ + limits.header_timeout;
    case State::kClosing:
      return idle_since_ + limits.idle_timeout;
    case State::kBody:
      return exchange_->began + limits.body_timeout;
    case State::kConnecting:
    case State::kReplying:
      break;
  }
  return engine_deadline();
}

Instant Session::engine_deadline() const {
  const Exchange& x = *exchange_;
  const Limits& limits = x.snapshot->config.limits;
  Instant due = x.deadlines.total;
  if (state_ == State::kConnecting) {
    due = std::min(due, x.phase_began + limits.connect_timeout);
  }
  if (waits_for_tokens()) {
    due = std::min(due, x.tokens_told == 0 ? x.deadlines.first_token
                                           : x.content_at + limits.between_tokens_timeout);
    due = std::min(due, x.spoken_at + limits.keepalive_interval);
  }
  return due;
}

std::vector<Effect> Session::take_effects() {
  return std::exchange(effects_, {});
}

}  // namespace spillway
