#include "wire/sse.h"

namespace spillway {

// The offset behind the event that begins at `begin`; 0 when it is not complete.
std::size_t SseScanner::event_end(std::size_t begin) {
  if (scanned_ < begin) {
    scanned_ = begin;
  }
  while (scanned_ < pending_.size()) {
    const char c = pending_[scanned_++];
    if (c == '\n' && after_cr_) {
      after_cr_ = false;  // the second half of a CRLF
      continue;
    }
    after_cr_ = c == '\r';
    if (c != '\n' && c != '\r') {
      line_empty_ = false;
      anything_ = true;
      continue;
    }
    if (!line_empty_) {
      line_empty_ = true;
      continue;
    }
    // An empty line ends the event. Its LF, where the CR came last, is taken along if it is here
    // already.
    if (c == '\r' && scanned_ < pending_.size() && pending_[scanned_] == '\n') {
      ++scanned_;
      after_cr_ = false;
    }
    anything_ = false;
    return scanned_;
  }
  return 0;
}

SseEvent SseScanner::read_event(std::string_view raw) {
  SseEvent event{.raw = raw};
  std::size_t lines = 0;
  std::size_t at = 0;
  while (at < raw.size()) {
    const std::size_t end = raw.find_first_of("\r\n", at);
    const std::string_view line = raw.substr(at, end == std::string_view::npos ? end : end - at);
    at = end == std::string_view::npos ? raw.size() : end + 1;
    if (line.starts_with("data") && (line.size() == 4 || line[4] == ':')) {
      std::string_view value = line.size() > 5 ? line.substr(5) : std::string_view();
      if (value.starts_with(' ')) {
        value.remove_prefix(1);
      }
      event.has_data = true;
      if (++lines == 1) {
        event.data = value;
        continue;
      }
      if (lines == 2) {
        joined_.assign(event.data);
      }
      joined_.append("\n").append(value);
      event.data = joined_;
    }
  }
  return event;
}

void append_sse_data(std::string& out, std::string_view data) {
  out.append("data: ").append(data).append("\n\n");
}

}  // namespace spillway
