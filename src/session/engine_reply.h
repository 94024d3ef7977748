#pragma once
// One engine's reply to one attempt, on its way to the caller, over bytes. A streamed reply is
// passed on event by event, byte for byte; the usage chunk that only we asked for is taken out. A
// reply in one piece is held until it is whole, so that an engine that dies in the middle still
// gives a clean error. Owned by one session.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "wire/http1.h"
#include "wire/openai_reply.h"
#include "wire/sse.h"

namespace spillway {

class EngineReply {
 public:
  struct Options {
    bool generates = true;            // chat or completions: chunks and replies have choices
    bool caller_asked_usage = false;  // else a usage-only chunk is taken out
    WallTime asked_at;                // for dates in its header
    std::size_t head_bytes_max = 32 * 1024;
    std::size_t event_bytes_max = 8 * 1024 * 1024;
    std::size_t body_bytes_max = 32 * 1024 * 1024;  // of a reply in one piece
  };
  enum class Kind { kUnknown, kStream, kWhole };

  // REQUIRES: reader outlives the reply.
  EngineReply(Options options, ReplyReader& reader)
      : options_(options), reader_(reader), scanner_(options.event_bytes_max) {}

  // Feeds bytes of the engine. What is for the caller, of a stream, is appended to `passed`. An
  // error means that the engine broke the protocol or a bound; the reply cannot go on.
  // `budget`: content events after which no more content is passed.
  Status feed(std::string_view bytes, std::string& passed,
              std::optional<std::int64_t> budget = std::nullopt);
  // The engine closed its side.
  void on_close();

  Kind kind() const { return kind_; }
  int status() const { return status_; }
  // The engine's header lines for the caller: no hop-by-hop fields, no framing, none that we write
  // ourselves.
  const std::string& headers() const { return headers_; }
  const std::string& body() const { return body_; }  // of kWhole

  bool any_byte() const { return any_byte_; }
  // The stream's first event was an error.
  const std::optional<ReplyFacts>& first_event_error() const { return first_event_error_; }
  // Something of the answer itself has come: content, or its end. Before it a stream says nothing
  // that another attempt would not say again.
  bool has_begun() const { return has_begun_; }
  // There was more content than the budget allows.
  bool over_budget() const { return over_budget_; }
  // A content event, after whose form others can be made.
  const std::string& chunk() const { return chunk_; }
  // Of a whole reply of status 200: it is no answer, whatever its status says.
  bool is_no_answer() const { return is_no_answer_; }
  bool body_is_json() const { return body_is_json_; }
  int error_code() const { return error_code_; }
  std::optional<Duration> retry_after() const { return retry_after_; }
  bool complete() const { return complete_; }  // every byte has come
  bool reusable() const { return complete_ && keep_alive_; }

  // Did the engine end the reply by itself? A stream of choices needs [DONE] or a finish reason.
  bool ended_well() const {
    return complete_ &&
           (kind_ == Kind::kWhole || saw_done_ || !finish_reason_.empty() || !options_.generates);
  }
  // All of a stream was said, whatever its framing says.
  bool said_all() const { return saw_done_; }
  bool saw_error() const { return saw_error_; }
  std::int64_t content_events() const { return content_events_; }
  std::int64_t unreadable_events() const { return unreadable_events_; }
  const std::optional<Usage>& usage() const { return usage_; }
  const std::string& finish_reason() const { return finish_reason_; }
  const std::string& error_message() const { return error_message_; }

 private:
  Status take_head(std::string_view& bytes);
  Status take_payload(std::string_view payload, std::string& passed);
  void take_event(const SseEvent& event, std::string& passed);
  void take_facts(const ReplyFacts& facts);
  void finish();

  Options options_;
  ReplyReader& reader_;
  Kind kind_ = Kind::kUnknown;
  int status_ = 0;
  std::string head_bytes_;
  std::size_t head_searched_ = 0;
  std::string headers_;
  std::optional<BodyDecoder> decoder_;
  std::string undecoded_;  // a piece of framing that is not whole
  bool any_byte_ = false;
  bool keep_alive_ = false;
  bool complete_ = false;

  SseScanner scanner_;
  std::string body_;
  bool first_event_known_ = false;
  bool has_begun_ = false;
  bool over_budget_ = false;
  bool is_no_answer_ = false;
  bool body_is_json_ = false;
  int error_code_ = 0;
  std::optional<Duration> retry_after_;
  std::optional<std::int64_t> budget_;
  std::string chunk_;
  std::int64_t unreadable_events_ = 0;
  std::optional<ReplyFacts> first_event_error_;
  bool saw_done_ = false;
  bool saw_error_ = false;
  std::int64_t content_events_ = 0;
  std::optional<Usage> usage_;
  std::string finish_reason_;
  std::string error_message_;
};

}  // namespace spillway
