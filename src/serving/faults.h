#pragma once
// Faults of an engine on command, for drills and tests: what is to go wrong, how, and until when.
// The simulated server obeys them. Pure values; time is an argument.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace spillway {

enum class Fault {
  kNone,
  kHang,            // no token moves; the server still answers
  kDie,             // the process ends
  kSlowFirstToken,  // every first token is `delay` late
  kStall,           // a reply stops after `after_tokens`, the connection stays
  kCut,             // a reply's connection is reset after `after_tokens`
  kMalformedChunk,  // after `after_tokens` a chunk is no JSON
  kWrongStatus,     // every request is answered with `status`
  kErrorEvent,      // status 200, and an error as the first event
  kFrozenMetrics,   // the metrics page stands still
};

struct FaultOrder {
  Fault fault = Fault::kNone;
  Duration lasts = std::chrono::hours(24 * 365);
  Duration delay = std::chrono::seconds(2);
  std::int64_t after_tokens = 3;
  int status = 500;
};

// {"fault":"cut","for_s":10,"after_tokens":5}; an error names what is wrong and what is known.
Result<FaultOrder> parse_fault(std::string_view json);

// The order in force.
class Faults {
 public:
  void order(Instant now, const FaultOrder& order) {
    order_ = order;
    until_ = now + order.lasts;
  }
  const FaultOrder& at(Instant now) const { return now < until_ ? order_ : kNothing; }
  bool is(Fault fault, Instant now) const { return at(now).fault == fault; }
  Instant until() const { return until_; }

 private:
  static const FaultOrder kNothing;
  FaultOrder order_;
  Instant until_;
};

}  // namespace spillway
