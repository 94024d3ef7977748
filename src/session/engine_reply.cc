#include "session/engine_reply.h"

#include <utility>

#include "wire/retry_after.h"

namespace spillway {
namespace {

Error broken(std::string message) {
  return {ErrorCode::kUnavailable, std::move(message)};
}

// Fields that the gateway writes itself.
bool is_ours(std::string_view name) {
  return equals_ignoring_case(name, "x-request-id") || equals_ignoring_case(name, "date") ||
         equals_ignoring_case(name, "retry-after") ||
         equals_ignoring_case(name, "retry-after-ms") || equals_ignoring_case(name, "server") ||
         equals_ignoring_case(name, "x-accel-buffering") ||
         equals_ignoring_case(name, "cache-control");
}

}  // namespace

Status EngineReply::take_head(std::string_view& bytes) {
  head_bytes_.append(bytes);
  bytes = {};
  const auto end = find_head_end(head_bytes_, head_searched_);
  if (!end) {
    head_searched_ = head_bytes_.size();
    return head_searched_ > options_.head_bytes_max
               ? Status(broken("the engine's header is too large"))
               : Ok{};
  }
  auto parsed = parse_response_head(std::string_view(head_bytes_).substr(0, *end),
                                    {.bytes = options_.head_bytes_max});
  if (const auto* error = std::get_if<HttpError>(&parsed)) {
    return broken("the engine's answer is not HTTP: " + error->message);
  }
  const auto& head = std::get<ResponseHead>(parsed);
  if (head.status < 200) {  // 100 Continue and the like: the real head follows
    head_bytes_.erase(0, *end);
    head_searched_ = 0;
    return take_head(bytes);
  }
  bytes = std::string_view(head_bytes_).substr(*end);
  status_ = head.status;
  keep_alive_ = head.keep_alive;
  const std::string_view type = find_field(head.fields, "content-type").value_or("");
  retry_after_ = retry_after_of(head.fields, options_.asked_at);
  kind_ =
      head.status == 200 && type.starts_with("text/event-stream") ? Kind::kStream : Kind::kWhole;
  headers_.reserve(*end);
  for (const HeaderField& field : head.fields) {
    if (!is_hop_by_hop(field.name) && !is_ours(field.name) &&
        !is_named_by_connection(head.fields, field.name)) {
      append_field(headers_, field.name, field.value);
    }
  }
  decoder_.emplace(head.framing);
  if (decoder_->done()) {
    finish();
  }
  return Ok{};
}

Status EngineReply::feed(std::string_view bytes, std::string& passed,
                         std::optional<std::int64_t> budget) {
  budget_ = budget;
  any_byte_ = any_byte_ || !bytes.empty();
  if (!decoder_) {
    if (Status status = take_head(bytes); !status) {
      return status;
    }
    if (!decoder_) {
      return Ok{};
    }
  }
  std::string joined;
  if (!undecoded_.empty()) {
    joined = std::exchange(undecoded_, {});
    joined.append(bytes);
    bytes = joined;
  }
  while (!complete_ && !bytes.empty()) {
    auto step = decoder_->decode(bytes);
    if (const auto* error = std::get_if<HttpError>(&step)) {
      return broken("the engine's answer is not HTTP: " + error->message);
    }
    const auto& piece = std::get<BodyDecoder::Piece>(step);
    if (piece.consumed == 0) {
      undecoded_.assign(bytes);
      break;
    }
    if (Status status = take_payload(piece.payload, passed); !status) {
      return status;
    }
    bytes.remove_prefix(piece.consumed);
    if (piece.done) {
      finish();
      keep_alive_ =
          keep_alive_ && bytes.empty();  // nothing may follow a reply that was not asked for
    }
  }
  return Ok{};
}

Status EngineReply::take_payload(std::string_view payload, std::string& passed) {
  if (kind_ == Kind::kStream) {
    return scanner_.feed(payload, [&](const SseEvent& event) { take_event(event, passed); });
  }
  body_.append(payload);
  if (body_.size() > options_.body_bytes_max) {
    return Error{ErrorCode::kTooLarge, "the engine's reply is larger than the limit"};
  }
  return Ok{};
}

void EngineReply::take_event(const SseEvent& event, std::string& passed) {
  if (over_budget_) {
    return;
  }
  if (!event.has_data) {
    passed.append(event.raw);  // a comment says nothing about how the reply begins
    return;
  }
  if (event.data == kSseDone) {
    saw_done_ = has_begun_ = first_event_known_ = true;
    passed.append(event.raw);
    return;
  }
  const ReplyFacts facts = reader_.read(event.data);
  if (!facts.is_json) {
    ++unreadable_events_;  // nothing to us; perhaps something to the caller
    passed.append(event.raw);
    return;
  }
  const bool first = !std::exchange(first_event_known_, true);
  if (facts.is_error && first) {
    first_event_error_ = facts;
    saw_error_ = true;
    error_message_ = facts.error_message;
    return;
  }
  if (facts.has_content && budget_ && content_events_ >= *budget_) {
    over_budget_ = true;
    return;
  }
  take_facts(facts);
  if (facts.has_content && chunk_.empty()) {
    chunk_ = event.data;
  }
  has_begun_ = has_begun_ || facts.has_content || !facts.finish_reason.empty() || facts.is_error ||
               !options_.generates;
  if (!facts.usage_only || options_.caller_asked_usage || !options_.generates) {
    passed.append(event.raw);
  }
}

void EngineReply::take_facts(const ReplyFacts& facts) {
  content_events_ += facts.has_content || !options_.generates ? 1 : 0;
  if (facts.usage) {
    usage_ = facts.usage;
  }
  if (!facts.finish_reason.empty()) {
    finish_reason_ = facts.finish_reason;
  }
  if (facts.is_error) {
    saw_error_ = true;
    error_message_ = facts.error_message;
    error_code_ = facts.error_code;
  }
}

void EngineReply::on_close() {
  if (decoder_ && !complete_ && decoder_->ends_with_close()) {
    finish();
  }
  keep_alive_ = false;
}

void EngineReply::finish() {
  complete_ = true;
  if (kind_ == Kind::kWhole) {
    const ReplyFacts facts = reader_.read(body_);
    take_facts(facts);
    body_is_json_ = facts.is_json;
    is_no_answer_ =
        status_ == 200 &&
        (facts.is_error || (options_.generates && (!facts.is_json || !facts.has_choices)));
  }
}

}  // namespace spillway
