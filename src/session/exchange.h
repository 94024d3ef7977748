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

enum class Route { kChat, kCompletions, kModels, kLive, kReady, kUnknown, kWrongMethod };

Route find_route(std::string_view method, std::string_view path);
std::string_view name_of(Route route);  // the pattern, for logs and metrics

struct Exchange {
  std::shared_ptr<const Snapshot> snapshot;  // in force when it began
  Instant began;
  RequestRecord record;
  Identity identity;
  Route route = Route::kUnknown;
  bool keep_alive = true;
  bool http10 = false;
  std::string passed_headers;  // the caller's header lines for the engine

  // The body on its way in.
  std::optional<BodyDecoder> body_decoder;
  std::string body;

  // The engine's part.
  Pool* pool = nullptr;
  std::optional<Ticket> ticket;
  std::string engine_head;  // up to "host: "; with the body kept until the first byte of a reply,
                            // to send it again
  std::string engine_body;
  bool reused_connection = false;
  std::optional<EngineReply> reply;
  std::string passed;            // of the stream, not yet framed
  bool committed = false;        // the status has gone out
  Instant phase_began;           // of the present phase, for its deadline
  std::int64_t tokens_told = 0;  // content events the pool knows of
  int level = 0;
  std::string actions;
};

}  // namespace spillway
