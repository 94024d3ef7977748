#pragma once
// What makes the text: a simulated engine or the embedded one. Called on the server's thread, and
// its callbacks run there too.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "serving/generation.h"
#include "wire/openai_error.h"
#include "wire/openai_reply.h"

namespace spillway {

using GenerationId = std::uint64_t;

struct GenerationEvents {
  std::function<void(std::string_view)> token;  // the text of one more token; may be empty
  // "stop" or "length". A reply that its caller ends early (a stop string) is cancelled instead.
  std::function<void(std::string_view finish_reason, const Usage&)> end;
  std::function<void(const OpenAiError&)>
      failed;  // instead of all others: the engine did not take it after all
};

struct Started {
  GenerationId id = 0;
  std::int64_t prompt_tokens = 0;
};

// What the metrics page says of the engine.
struct BackendStats {
  int running = 0;
  int waiting = 0;
  double kv_usage = 0;
  std::int64_t kv_blocks = 0;
  int block_tokens = 16;
  std::uint64_t preemptions = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t generation_tokens = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Begins; never calls back from inside. `end` comes exactly once unless it is cancelled. An error
  // when it cannot be served.
  virtual std::variant<Started, OpenAiError> start(const GenerationRequest& request,
                                                   GenerationEvents events) = 0;
  // Takes effect at the engine's next step; no event comes any more. Unknown ids are ignored.
  virtual void cancel(GenerationId id) = 0;
  // A fault on purpose: no progress until then; the default time ends it.
  virtual void hang_until(Instant until) { static_cast<void>(until); }
  virtual BackendStats stats() = 0;
  virtual int max_model_len() const = 0;
};

}  // namespace spillway
