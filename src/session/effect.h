#pragma once
// What a session wants done in the world: values that the gateway performs on sockets and tests
// look at.

#include <string>
#include <variant>

#include "session/request_record.h"

namespace spillway {

// The two ends a session talks to.
enum class Side { kCaller, kEngine };

// Open a connection to the engine at host:port, or take an idle one unless it must be `fresh`; then
// call connected() or connect_failed().
struct ConnectEngine {
  std::string replica;
  bool fresh = false;
};

// The session is done with its engine connection: keep it for the next request, or close it at
// once, which is how the engine learns that its work is not wanted any more.
struct ReleaseEngine {
  bool reusable = false;
};

// Nothing more will be written to the caller: close once output(kCaller) has been sent. `abort`:
// reset, so that half a reply cannot be taken for a whole one.
// `linger`: it may still be sending; closing at once would reset the connection, and with it our
// answer (RFC 9112, section 9.6).
struct CloseCaller {
  bool abort = false;
  bool linger = false;
};

// A request has ended. Exactly one a request.
struct RequestEnded {
  RequestRecord record;
};

using Effect = std::variant<ConnectEngine, ReleaseEngine, CloseCaller, RequestEnded>;

}  // namespace spillway
