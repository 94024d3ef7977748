#include "decision/capacity.h"

#include <cmath>

namespace spillway {

void Capacity::on_page(Instant at, const EngineFacts& facts) {
  if (!facts.prompt_tokens_total || !facts.generation_tokens_total || !facts.waiting) {
    return;
  }
  const Reading now{.at = at,
                    .work = options_.prompt_token_cost * *facts.prompt_tokens_total +
                            *facts.generation_tokens_total,
                    .queueing = *facts.waiting >= 2 + facts.running.value_or(0) / 10};
  const std::optional<Reading> before = last_;
  last_ = now;
  if (!before || now.at <= before->at || now.work < before->work) {
    return;  // the first reading, or counters that began again after a restart
  }
  // A queue at both ends means that the replica was busy all the time between. A request or two
  // that wait for the next step are no queue: they are there at any load.
  if (!before->queueing || !now.queueing) {
    return;
  }
  const double seconds = to_seconds(now.at - before->at);
  const double fade = std::exp(-seconds / to_seconds(options_.memory));
  work_ = work_ * fade + (now.work - before->work);
  seconds_ = seconds_ * fade + seconds;
  confirmed_ = at;
}

std::optional<double> Capacity::work_per_second(Instant now) const {
  if (options_.fixed) {
    return options_.fixed;
  }
  if (seconds_ < to_seconds(options_.least_evidence) || work_ <= 0) {
    return std::nullopt;
  }
  const double age = now > confirmed_ ? to_seconds(now - confirmed_) : 0;
  return work_ / seconds_ * std::exp2(age / to_seconds(options_.doubling));
}

}  // namespace spillway
