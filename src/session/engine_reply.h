#pragma once
// One engine's reply on its way to the caller, over bytes. A streamed reply is passed on event by
// event, byte for byte; the status goes out only when the first event is known to be good, and the
// usage chunk that only we asked for is taken out. A reply in one piece is held until it is whole,
// so that an engine that dies in the middle still gives a clean error. Owned by one session.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/http1.h"
#include "wire/openai_reply.h"
#include "wire/sse.h"

namespace spillway {

class EngineReply {
 public:
  struct Options {
    bool caller_asked_usage = false;  // else a usage-only chunk is taken out
    std::size_t head_bytes_max = 32 * 1024;
    std::size_t event_bytes_max = 8 * 1024 * 1024;
    std::size_t body_bytes_max = 32 * 1024 * 1024;  // of a reply in one piece
  };

  enum class Kind { kUnknown, kStream, kWhole };

  explicit EngineReply(Options options) : options_(options), scanner_(options.event_bytes_max) {}

  // Feeds bytes from the engine. Complete events are appended to `passed`. An error means that the
  // engine broke the protocol or a bound; the reply can not go on.
  Status feed(std::string_view bytes, std::string& passed);

  // The engine closed its side. True where that ends the reply well.
  bool on_close();

  Kind kind() const { return kind_; }
  int status() const { return head_.status; }
  // Filtered headers of the engine for the caller, each line ended: no hop-by-hop fields, no
  // framing.
  const std::string& headers() const { return headers_; }
  // The body of a reply in one piece. REQUIRES: complete(), kind() == kWhole.
  const std::string& body() const { return body_; }
  bool complete() const { return complete_; }  // every byte has come
  bool reusable() const { return complete_ && keep_alive_; }
  bool started() const { return head_done_; }

  std::int64_t content_events() const { return content_events_; }
  const std::optional<Usage>& usage() const { return usage_; }
  const std::string& finish_reason() const { return finish_reason_; }
  bool saw_done() const { return saw_done_; }
  // The first event of a stream was an error: its data. Nothing of it has been passed on.
  const std::optional<std::string>& first_event_error() const { return first_event_error_; }

 private:
  struct HeadFacts {
    int status = 0;
  };

  Status take_head(std::string_view& bytes);
  Status take_stream(std::string_view payload, std::string& passed);
  void take_event(std::string_view raw, std::string_view data, std::string& passed);
  Status take_whole(std::string_view payload);
  void finish_whole();

  Options options_;
  Kind kind_ = Kind::kUnknown;
  HeadFacts head_;
  std::string head_bytes_;
  std::string headers_;
  std::optional<BodyDecoder> decoder_;
  bool head_done_ = false;
  bool keep_alive_ = false;
  bool complete_ = false;
  bool until_close_ = false;

  SseScanner scanner_;
  bool first_event_seen_ = false;
  std::string body_;

  std::int64_t content_events_ = 0;
  std::optional<Usage> usage_;
  std::string finish_reason_;
  bool saw_done_ = false;
  std::optional<std::string> first_event_error_;
};

}  // namespace spillway
