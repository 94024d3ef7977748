#pragma once
// HTTP/1.1 messages over bytes (RFC 9112): heads are parsed in the buffer they lie in, bodies are
// decoded piece by piece without a copy. Strict where leniency lets two readers disagree about
// where a message ends (request smuggling). Pure functions and small values; anybody may use them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace spillway {

struct HeaderField {
  std::string_view name;
  std::string_view value;  // without the blanks around it
};

// How the end of a body is found (RFC 9112, section 6.3).
struct BodyFraming {
  enum class Kind { kNone, kLength, kChunked, kUntilClose };
  Kind kind = Kind::kNone;
  std::uint64_t length = 0;  // of kLength
};

// Views into the buffer that was parsed.
struct RequestHead {
  std::string_view method;
  std::string_view target;  // as sent
  std::string_view path;    // without query; of an absolute-form target too
  int minor_version = 1;    // HTTP/1.x
  std::vector<HeaderField> fields;
  BodyFraming framing;
  bool keep_alive = true;
  bool expects_continue = false;
};

struct ResponseHead {
  int status = 0;
  int minor_version = 1;
  std::vector<HeaderField> fields;
  BodyFraming framing;
  bool keep_alive = true;
};

// What to answer to a message that is no good; `status` is an HTTP status.
struct HttpError {
  int status = 400;
  std::string message;
};

struct HeadLimits {
  std::size_t bytes = 32 * 1024;
  std::size_t fields = 100;
};

// Offset just behind the empty line that ends the head; nothing when it has not come. `from`: bytes
// before it were searched already.
std::optional<std::size_t> find_head_end(std::string_view bytes, std::size_t from);

// Parses a head. REQUIRES: `head` ends with the empty line (as find_head_end says).
std::variant<RequestHead, HttpError> parse_request_head(std::string_view head,
                                                        const HeadLimits& limits);
// `to_head_request`: the request was HEAD, so no body follows whatever the fields say.
std::variant<ResponseHead, HttpError> parse_response_head(std::string_view head,
                                                          const HeadLimits& limits,
                                                          bool to_head_request = false);

// The value of the first field of this name, in any case; nothing when absent.
std::optional<std::string_view> find_field(const std::vector<HeaderField>& fields,
                                           std::string_view name);
bool equals_ignoring_case(std::string_view a, std::string_view b);

// Fields that belong to one connection and never pass a proxy (RFC 9110, section 7.6.1), framing
// included.
bool is_hop_by_hop(std::string_view name);
// Does a field Connection of this message name it, so that it must not pass either?
bool is_named_by_connection(const std::vector<HeaderField>& fields, std::string_view name);

// Finds the payload in the bytes of one body.
class BodyDecoder {
 public:
  explicit BodyDecoder(BodyFraming framing);

  struct Piece {
    std::size_t consumed = 0;  // bytes of the input that are dealt with
    std::string_view payload;  // within the input
    bool done = false;         // the body has ended; later bytes belong to the next message
  };

  // Decodes from the front of `in`. Call again with the rest until nothing is consumed or it is
  // done.
  std::variant<Piece, HttpError> decode(std::string_view in);
  // The connection ended: is that a proper end of this body?
  bool ends_with_close() const { return framing_.kind == BodyFraming::Kind::kUntilClose; }
  bool done() const { return state_ == State::kDone; }

 private:
  enum class State { kPayload, kChunkSize, kChunkEnd, kTrailer, kDone };

  std::variant<Piece, HttpError> decode_line(std::string_view in);

  BodyFraming framing_;
  State state_ = State::kPayload;
  std::uint64_t left_ = 0;
  std::size_t trailer_bytes_ = 0;
};

// Writers append to `out`.
void append_status_line(std::string& out, int status);
void append_field(std::string& out, std::string_view name, std::string_view value);
void append_chunk(std::string& out, std::string_view payload);  // nothing for an empty payload
constexpr std::string_view kLastChunk = "0\r\n\r\n";
std::string_view reason_of(int status);

}  // namespace spillway
