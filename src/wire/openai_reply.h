#pragma once
// Replies of the OpenAI API, as far as a gateway has to understand them: is there content, has it
// ended and why, what did it cost, is it an error. Tolerant: whatever an engine sends, reading
// never fails. Owned by one strand.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace spillway {

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
};

// Of one event of a stream, or of a whole reply.
struct ReplyFacts {
  bool is_json = false;
  bool is_error = false;  // {"error": …} or {"object":"error", …}
  int error_code = 0;     // where it is a number, such as 503
  std::string error_message;
  bool has_content = false;    // text, reasoning, a refusal or a tool call
  bool usage_only = false;     // usage, and no choice at all
  bool has_choices = false;    // a list with at least one
  std::string finish_reason;   // empty: not ended
  std::optional<Usage> usage;  // counts that can be; a negative one is an engine's overflow
};

constexpr std::string_view kSseDone = "[DONE]";

// Ends a stream at a budget: a chunk that says finish_reason "length" for each of `choices`
// replies, made after `like`, a chunk of the same stream. Empty when `like` is no chunk.
std::string length_chunk(std::string_view like, std::int64_t choices);
// The usage chunk of the same stream.
std::string usage_chunk_like(std::string_view like, const Usage& usage);

// Reusable: it keeps its buffers.
class ReplyReader {
 public:
  ReplyReader();
  ~ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // One chunk (the data of an event) or one whole reply.
  ReplyFacts read(std::string_view json);

 private:
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

}  // namespace spillway
