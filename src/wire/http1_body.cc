#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "wire/http1.h"

namespace spillway {
namespace {

constexpr std::size_t kChunkLineMax = 1024;  // size and extensions
constexpr std::size_t kTrailerMax = 16 * 1024;

// Hex digits, then an optional extension. Nothing when malformed or too large.
std::optional<std::uint64_t> chunk_size(std::string_view line) {
  const std::string_view digits = line.substr(0, line.find_first_of("; \t"));
  if (digits.empty() || digits.size() > 15) {
    return std::nullopt;
  }
  std::uint64_t size = 0;
  for (const char c : digits) {
    const int value = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (value < 0) {
      return std::nullopt;
    }
    size = size * 16 + static_cast<std::uint64_t>(value);
  }
  std::string_view rest = line.substr(digits.size());
  while (rest.starts_with(' ') || rest.starts_with('\t')) {
    rest.remove_prefix(1);
  }
  const bool clean = std::ranges::none_of(
      rest, [](char c) { return c != '\t' && static_cast<unsigned char>(c) < 0x20; });
  // Blanks stand before an extension or nowhere: some readers take "5 " for 5, some for nothing.
  const bool blanks = digits.size() + rest.size() < line.size();
  if (!clean || (rest.empty() ? blanks : rest.front() != ';')) {
    return std::nullopt;
  }
  return size;
}

void append_number(std::string& out, std::uint64_t number, int base) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), number, base).ptr;
  out.append(digits.begin(), end);
}

}  // namespace

BodyDecoder::BodyDecoder(BodyFraming framing) : framing_(framing) {
  switch (framing.kind) {
    case BodyFraming::Kind::kNone:
      state_ = State::kDone;
      break;
    case BodyFraming::Kind::kLength:
      left_ = framing.length;
      state_ = left_ == 0 ? State::kDone : State::kPayload;
      break;
    case BodyFraming::Kind::kChunked:
      state_ = State::kChunkSize;
      break;
    case BodyFraming::Kind::kUntilClose:
      left_ = std::numeric_limits<std::uint64_t>::max();
      break;
  }
}

std::variant<BodyDecoder::Piece, HttpError> BodyDecoder::decode(std::string_view in) {
  Piece piece;
  while (state_ != State::kDone) {
    const std::string_view rest = in.substr(piece.consumed);
    if (state_ == State::kPayload) {
      if (rest.empty()) {
        return piece;
      }
      const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(left_, rest.size()));
      piece.payload = rest.substr(0, take);
      piece.consumed += take;
      if (framing_.kind != BodyFraming::Kind::kUntilClose) {
        left_ -= take;
      }
      if (left_ == 0) {
        state_ = framing_.kind == BodyFraming::Kind::kChunked ? State::kChunkEnd : State::kDone;
      }
      piece.done = state_ == State::kDone;
      return piece;  // one contiguous payload a call
    }
    auto step = decode_line(rest);
    if (auto* error = std::get_if<HttpError>(&step)) {
      return std::move(*error);
    }
    const std::size_t consumed = std::get<Piece>(step).consumed;
    if (consumed == 0) {
      return piece;
    }
    piece.consumed += consumed;
  }
  piece.done = true;
  return piece;
}

// One line of the chunked coding: a size, the CRLF behind a chunk, or a trailer line (dropped).
std::variant<BodyDecoder::Piece, HttpError> BodyDecoder::decode_line(std::string_view in) {
  const std::size_t end = in.find('\n');
  const std::size_t line_max = state_ == State::kTrailer ? kTrailerMax : kChunkLineMax;
  if (end == std::string_view::npos ? in.size() > line_max : end > line_max) {
    return HttpError{400, "a line of the chunked body is too long"};
  }
  if (end == std::string_view::npos) {
    if (state_ == State::kChunkEnd && !in.empty() && in.front() != '\r') {
      return HttpError{400, "a chunk is longer than its size says"};
    }
    return Piece{};
  }
  if (end == 0 || in[end - 1] != '\r') {
    return HttpError{400, "a line of the chunked body does not end in CRLF"};
  }
  const std::string_view line = in.substr(0, end - 1);
  switch (state_) {
    case State::kChunkEnd:
      if (!line.empty()) {
        return HttpError{400, "a chunk is longer than its size says"};
      }
      state_ = State::kChunkSize;
      break;
    case State::kChunkSize: {
      const auto size = chunk_size(line);
      if (!size) {
        return HttpError{400, "a chunk size is malformed"};
      }
      left_ = *size;
      state_ = left_ == 0 ? State::kTrailer : State::kPayload;
      break;
    }
    case State::kTrailer:
      trailer_bytes_ += end + 1;
      if (trailer_bytes_ > kTrailerMax) {
        return HttpError{431, "the trailer is too large"};
      }
      state_ = line.empty() ? State::kDone : State::kTrailer;
      break;
    case State::kPayload:
    case State::kDone:
      break;
  }
  return Piece{.consumed = end + 1};
}

void append_status_line(std::string& out, int status) {
  out.append("HTTP/1.1 ");
  append_number(out, static_cast<std::uint64_t>(status), 10);
  out.append(" ").append(reason_of(status)).append("\r\n");
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

void append_chunk(std::string& out, std::string_view payload) {
  if (!payload.empty()) {
    append_number(out, payload.size(), 16);
    out.append("\r\n").append(payload).append("\r\n");
  }
}

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return status < 400 ? "Status" : "Error";
  }
}

}  // namespace spillway
