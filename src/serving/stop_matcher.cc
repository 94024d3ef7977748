#include "serving/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace spillway {

std::string StopMatcher::push(std::string_view text) {
  if (stopped_) {
    return {};
  }
  held_.append(text);
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    first = std::min(first, held_.find(stop));
  }
  if (first != std::string::npos) {
    stopped_ = true;
    std::string shown = held_.substr(0, first);
    held_.clear();
    return shown;
  }
  // Keep the longest end that begins a stop string.
  std::size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) {
        keep = n;
      }
    }
  }
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return shown;
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

}  // namespace spillway
