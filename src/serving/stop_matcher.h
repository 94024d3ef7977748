#pragma once
// Ends a text at the first of some stop strings, while it still grows: text that may be the
// beginning of one is held back, so that no part of a stop string is ever shown. Owned by one
// reply.

#include <string>
#include <string_view>
#include <vector>

namespace spillway {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Adds text; returns what may be shown now.
  std::string push(std::string_view text);
  // The text has ended by itself: what was held back may be shown.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace spillway
