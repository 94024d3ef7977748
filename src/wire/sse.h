#pragma once
// Server-sent events over bytes (WHATWG HTML, section 9.2): finds where each event ends and what
// its data is, and hands both on, so that a proxy can pass the raw bytes unchanged. Lines end in
// LF, CRLF or CR; events may be cut anywhere between reads. Owned by one stream.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace spillway {

struct SseEvent {
  std::string_view raw;   // every byte of the event, its empty line included
  std::string_view data;  // its data lines, joined by LF; empty for a comment
  bool has_data = false;  // false: comments or other fields only
};

class SseScanner {
 public:
  // An event longer than this is an error, not a reason to grow.
  explicit SseScanner(std::size_t event_bytes_max) : event_bytes_max_(event_bytes_max) {}

  // Calls sink(const SseEvent&) for each event that is complete now; the views are valid during the
  // call.
  template <class Sink>
  Status feed(std::string_view bytes, Sink&& sink) {
    pending_.append(bytes);
    std::size_t begin = 0;
    while (const std::size_t end = event_end(begin)) {
      const SseEvent event = read_event(std::string_view(pending_).substr(begin, end - begin));
      begin = end;
      sink(event);
    }
    pending_.erase(0, begin);
    scanned_ -= begin;
    if (pending_.size() > event_bytes_max_) {
      return Error{ErrorCode::kTooLarge, "an event of the stream is larger than the limit"};
    }
    return Ok{};
  }

  // Bytes of an event that is not complete.
  std::string_view rest() const { return pending_; }

 private:
  std::size_t event_end(std::size_t begin);
  SseEvent read_event(std::string_view raw);

  std::size_t event_bytes_max_;
  std::string pending_;
  std::size_t scanned_ = 0;  // bytes of pending_ already searched
  bool line_empty_ = true;   // nothing on the present line yet
  bool after_cr_ = false;    // the byte before was CR: an LF belongs to it
  bool anything_ = false;    // the present event has at least one line
  std::string joined_;
};

// `data: {...}` and the empty line.
void append_sse_data(std::string& out, std::string_view data);

}  // namespace spillway
