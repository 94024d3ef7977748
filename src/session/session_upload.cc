// Uploads (audio as multipart/form-data): the pool is chosen by the field `model`, the rest passes
// while it arrives, a bounded piece at a time.
#include "session/session.h"
#include "wire/multipart.h"

namespace spillway {
namespace {

// The field `model` has to come within so many bytes; OpenAI's clients send it before the file.
constexpr std::size_t kModelWithin = 64 * 1024;

}  // namespace

// True when the state has changed.
bool Session::find_upload_pool(Instant now) {
  Exchange& x = *exchange_;
  using State = MultipartField::State;
  const MultipartField field = find_multipart_field(x.body, x.boundary, "model");
  const bool done = x.body_decoder->done();
  if (field.state == State::kNotYet && !done && x.body.size() < kModelWithin) {
    return false;
  }
  x.record.tenant = x.identity.tenant;
  x.record.qos_class = x.identity.qos_class;
  const auto& pools = x.snapshot->config.pools;
  if (field.state == State::kFound) {
    x.record.model = field.value;
  } else if (pools.size() == 1) {
    x.record.model = pools.front().models.front();
  } else {
    refuse_request(
        {.message = "The field 'model' is missing; put it before the file.", .param = "model"},
        false, now);
    return true;
  }
  x.uploading = !done;
  x.pool = services_.pools.serving(x.record.model);
  if (x.pool == nullptr) {
    refuse_request({.status = 404,
                    .message = "The model '" + x.record.model + "' does not exist here.",
                    .param = "model",
                    .code = "model_not_found"},
                   done, now);
    return true;
  }
  const auto estimate = static_cast<std::int64_t>(
      x.framing.kind == BodyFraming::Kind::kLength ? x.framing.length / 1000 : 1000);
  RequestFacts facts{.qos_class = x.identity.qos_class,
                     .prompt_tokens = std::min<std::int64_t>(estimate, 100'000),
                     .generates = false,
                     .retries = x.snapshot->config.classes[index_of(x.identity.qos_class)].retries};
  x.reply_options = {.generates = false, .asked_at = services_.wall_at(now)};
  if (!admit(facts, now)) {
    return true;
  }
  write_engine_head();
  if (x.framing.kind == BodyFraming::Kind::kChunked) {
    append_field(x.engine_head, "transfer-encoding", "chunked");
    append_chunk(x.engine_body, x.body);
    x.engine_body += done ? kLastChunk : "";
  } else {
    append_field(x.engine_head, "content-length", std::to_string(x.framing.length));
    x.engine_body = std::move(x.body);
  }
  x.body = std::string();
  start(now);
  return true;
}

// The rest of the body, as fast as the engine takes it.
void Session::pass_upload(Instant now) {
  Exchange& x = *exchange_;
  std::size_t consumed = 0;
  while (x.uploading && to_engine_.rest().size() < kOutputHigh) {
    auto step = x.body_decoder->decode(std::string_view(in_).substr(consumed));
    if (const auto* error = std::get_if<HttpError>(&step)) {
      in_.clear();
      release_engine(false);
      finish_with_pool(now, false, false);
      refuse_request(
          {.status = error->status, .message = "The body is not HTTP: " + error->message + "."},
          false, now);
      return;
    }
    const auto& piece = std::get<BodyDecoder::Piece>(step);
    if (!piece.payload.empty()) {
      x.sent_some = true;
      if (x.framing.kind == BodyFraming::Kind::kChunked) {
        append_chunk(to_engine_.bytes, piece.payload);
      } else {
        to_engine_.bytes.append(piece.payload);
      }
    }
    consumed += piece.consumed;
    if (x.body_decoder->done()) {
      x.uploading = false;
      if (x.framing.kind == BodyFraming::Kind::kChunked) {
        to_engine_.bytes.append(kLastChunk);
      }
    }
    if (piece.consumed == 0) {
      break;
    }
  }
  in_.erase(0, consumed);
}

}  // namespace spillway
