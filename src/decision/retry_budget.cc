#include "decision/retry_budget.h"

#include <algorithm>
#include <chrono>

namespace spillway {
namespace {

std::int64_t second_of(Instant now) {
  return std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
}

}  // namespace

RetryBudget::Second& RetryBudget::at(Instant now) {
  const std::int64_t number = second_of(now);
  Second& second = seconds_[static_cast<std::size_t>(number) % seconds_.size()];
  if (second.number != number) {
    second = {.number = number};
  }
  return second;
}

std::int64_t RetryBudget::left(Instant now) const {
  const std::int64_t oldest = second_of(now) - static_cast<std::int64_t>(seconds_.size());
  std::int64_t successes = 0;
  std::int64_t retries = 0;
  for (const Second& second : seconds_) {
    if (second.number > oldest) {
      successes += second.successes;
      retries += second.retries;
    }
  }
  const auto allowed = kAlways + static_cast<std::int64_t>(kShare * static_cast<double>(successes));
  return std::max<std::int64_t>(allowed - retries, 0);
}

bool RetryBudget::take(Instant now) {
  if (left(now) == 0) {
    return false;
  }
  ++at(now).retries;
  return true;
}

}  // namespace spillway
