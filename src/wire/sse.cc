#include "wire/sse.h"

#include <algorithm>

namespace spillway {
namespace {

// The offset of the next CR or LF from `at`; the size when there is none. In windows, so that a
// stream of lines that end in CR is not searched for an LF again and again.
std::size_t find_line_end(std::string_view bytes, std::size_t at) {
  constexpr std::size_t kWindow = 512;
  while (at < bytes.size()) {
    const std::string_view window = bytes.substr(at, kWindow);
    const std::size_t lf = std::min(window.find('\n'), window.size());
    const std::size_t end = std::min(window.substr(0, lf).find('\r'), lf);
    if (end < window.size()) {
      return at + end;
    }
    at += window.size();
  }
  return bytes.size();
}

}  // namespace

// The offset behind the event that begins at `begin`; 0 when it is not complete.
std::size_t SseScanner::event_end(std::size_t begin) {
  if (scanned_ < begin) {
    scanned_ = begin;
  }
  while (scanned_ < pending_.size()) {
    const char c = pending_[scanned_];
    if (c != '\n' && c != '\r') {
      scanned_ = find_line_end(pending_, scanned_);
      after_cr_ = false;
      line_empty_ = false;
      anything_ = true;
      continue;
    }
    ++scanned_;
    if (c == '\n' && after_cr_) {
      after_cr_ = false;  // the second half of a CRLF
      continue;
    }
    after_cr_ = c == '\r';
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
    const std::size_t end = find_line_end(raw, at);
    const std::string_view line = raw.substr(at, end - at);
    at = end + 1;
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
