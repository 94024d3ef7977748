#pragma once
// Who asks, and under which names the request is known: class, tenant, request id, trace. Pure
// functions over the request's head; anybody may call them.

#include <optional>
#include <string>

#include "base/rng.h"
#include "policy/config.h"
#include "policy/qos_class.h"
#include "wire/http1.h"
#include "wire/openai_error.h"
#include "wire/trace_context.h"

namespace spillway {

struct Identity {
  std::string request_id;
  QosClass qos_class = QosClass::kNormal;
  std::string tenant;
  TraceContext trace;          // trace id, our new span id, sampled flag
  std::string parent_span_id;  // the caller's span; empty when the trace begins here
};

// The names only. The caller's x-request-id is kept where it is 1 to 128 characters of
// [A-Za-z0-9._:-], else one is made; a traceparent is continued where it is well formed. `head` may
// be null: a request that could not be read.
Identity anonymous(const RequestHead* head, Rng& rng);

// Fills in class and tenant. An unknown class or API key is an error: a typo must not silently
// become another class.
std::optional<OpenAiError> classify(const RequestHead& head, const Config& config,
                                    Identity& identity);

// A lower-case hex string of this many digits.
std::string random_hex(Rng& rng, std::size_t digits);

}  // namespace spillway
