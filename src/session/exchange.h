#pragma once
// One request of a connection, from its head to its end: what was read, what was decided, how far
// it has come. Plain data of the session's state machine; see session.h.

#include <memory>
#include <optional>
#include <string>

#include "base/time.h"
#include "decision/pool.h"
#include "session/engine_reply.h"
#include "session/identity.h"
#include "session/request_record.h"
#include "session/services.h"
#include "wire/http1.h"
#include "wire/openai_error.h"
#include "wire/openai_request.h"

namespace spillway {

// An answer that the gateway gives by itself.
struct LocalAnswer {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::string extra_headers;  // whole lines
  Outcome outcome = Outcome::kOk;
  std::string error;  // for the log
};

// A refusal or fault in OpenAI's shape.
LocalAnswer error_answer(const OpenAiError& error, Outcome outcome);

// `retry-after` in whole seconds, at least 1, and `retry-after-ms`.
void append_retry_after(std::string& headers, Duration wait);

// What is done with a request of a path.
enum class Route {
  kChat,
  kCompletions,
  kForward,  // JSON with a model: embeddings, responses, rerank and their like
  kUpload,   // multipart, passed on while it arrives
  kModels,
  kModel,
  kLive,
  kReady,
  kUnknown,
  kWrongMethod
};

struct FoundRoute {
  Route route = Route::kUnknown;
  std::string_view pattern = "other";  // for logs, metrics and the engine; static
};

// Only these paths are answered; an engine's own (load an adapter, sleep) are never reachable.
FoundRoute find_route(std::string_view method, std::string_view path);

constexpr bool goes_to_an_engine(Route route) {
  return route == Route::kChat || route == Route::kCompletions || route == Route::kForward ||
         route == Route::kUpload;
}

// How long its phases may last.
struct Deadlines {
  Instant first_token;  // of a stream
  Instant total;
};

struct Exchange {
  std::shared_ptr<const Snapshot> snapshot;  // in force when it began
  Instant began;
  RequestRecord record;
  Identity identity;
  Route route = Route::kUnknown;
  std::string_view pattern = "other";
  std::string path;                    // as sent, without the query
  std::optional<OpenAiError> refusal;  // found in the head, answered when the body has been read
  bool keep_alive = true;
  bool http10 = false;
  std::string passed_headers;  // the caller's header lines for the engine
  std::optional<Duration> asked_first_token;
  std::optional<Duration> asked_total;

  // The body on its way in.
  BodyFraming framing;
  std::optional<BodyDecoder> body_decoder;
  std::string body;
  std::string boundary;    // of kUpload
  bool uploading = false;  // the body is passed on while it arrives
  bool sent_some = false;  // of an upload: some of it cannot be sent again

  // The engine's part.
  Pool* pool = nullptr;
  std::optional<Ticket> ticket;
  std::string engine_head;  // up to "host: "; with the body kept until content has been shown, to
                            // send it again
  std::string engine_body;
  bool plain = false;  // under the bypass
  bool reused_connection = false;
  std::uint64_t fingerprint = 0;
  std::optional<EngineReply> reply;
  EngineReply::Options reply_options;
  Deadlines deadlines;
  Instant phase_began;                 // of connecting
  Instant content_at;                  // the last content of a stream
  Instant spoken_at;                   // when the caller of a stream last was sent something
  std::string passed;                  // of the stream, not yet framed
  bool committed = false;              // the status has gone out
  bool shown = false;                  // something of the engine's has gone out: no retry any more
  std::int64_t tokens_told = 0;        // content events the pool knows of
  std::optional<std::int64_t> budget;  // content events after which we end the stream
  std::int64_t replies = 1;
  RequestPlan plan;
  int level = 0;
  std::string actions;
};

}  // namespace spillway
