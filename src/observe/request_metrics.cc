#include "observe/request_metrics.h"

#include <algorithm>

namespace spillway {
namespace {

// "budget=64 truncate=90>54" -> calls f("budget"), f("truncate").
template <class F>
void for_each_action(std::string_view actions, F f) {
  while (!actions.empty()) {
    const std::size_t end = std::min(actions.find(' '), actions.size());
    f(std::string(actions.substr(0, std::min(actions.find('='), end))));
    actions.remove_prefix(std::min(end + 1, actions.size()));
  }
}

}  // namespace

void SecondsHistogram::observe(double seconds) {
  const auto bucket = std::ranges::lower_bound(kBounds, seconds) - kBounds.begin();
  ++counts_[static_cast<std::size_t>(bucket)];
  sum_ += seconds;
}

void SecondsHistogram::write(PrometheusWriter& writer, std::string_view name,
                             const Labels& labels) const {
  writer.histogram(name, labels, kBounds, counts_, sum_);
}

void RequestMetrics::add(const RequestRecord& r) {
  Key key{r.pool, r.qos_class, r.outcome};
  if (requests_.size() >= kKeysMax && !requests_.contains(key)) {
    std::get<0>(key) = "other";
  }
  const std::string pool = std::get<0>(key);
  ++requests_[key];
  for_each_action(r.actions, [&](const std::string& action) { ++actions_[{pool, action}]; });
  if (r.pool.empty()) {
    return;
  }
  PoolCounts& counts = counts_[pool];
  counts.retries += static_cast<std::uint64_t>(r.retries);
  counts.failovers += static_cast<std::uint64_t>(r.failovers);
  counts.unreadable += static_cast<std::uint64_t>(r.unreadable);
  counts.usage_counted += r.usage_counted && r.outcome == Outcome::kOk ? 1 : 0;
  if (r.time_to_first_token > Duration{}) {
    first_token_[pool][index_of(r.qos_class)].observe(to_seconds(r.time_to_first_token));
  }
  if (r.outcome == Outcome::kOk) {
    total_[pool][index_of(r.qos_class)].observe(to_seconds(r.total_time));
    prompt_tokens_[pool] += static_cast<std::uint64_t>(std::max<std::int64_t>(r.prompt_tokens, 0));
  }
  output_tokens_[pool] += static_cast<std::uint64_t>(std::max<std::int64_t>(r.output_tokens, 0));
}

void RequestMetrics::write(PrometheusWriter& writer) const {
  writer.family("spillway_requests_total", "counter",
                "Requests that have ended, by how they ended.");
  for (const auto& [key, count] : requests_) {
    const auto& [pool, qos_class, outcome] = key;
    writer.sample("spillway_requests_total",
                  {{"pool", pool},
                   {"class", std::string(name_of(qos_class))},
                   {"outcome", std::string(name_of(outcome))}},
                  static_cast<double>(count));
  }
  writer.family("spillway_actions_total", "counter", "Actions of the ladder, by kind.");
  for (const auto& [key, count] : actions_) {
    writer.sample("spillway_actions_total", {{"pool", key.first}, {"action", key.second}},
                  static_cast<double>(count));
  }
  const auto histograms = [&](std::string_view name, std::string_view help, const auto& by_pool) {
    writer.family(name, "histogram", help);
    for (const auto& [pool, by_class] : by_pool) {
      for (const QosClass c : kQosClasses) {
        by_class[index_of(c)].write(writer, name,
                                    {{"pool", pool}, {"class", std::string(name_of(c))}});
      }
    }
  };
  histograms("spillway_time_to_first_token_seconds",
             "From arrival to the first token; of a reply in one piece, to its end.", first_token_);
  histograms("spillway_request_seconds", "From arrival to the end of a good reply.", total_);
  const auto counters = [&](std::string_view name, std::string_view help, const auto& by_pool) {
    writer.family(name, "counter", help);
    for (const auto& [pool, count] : by_pool) {
      writer.sample(name, {{"pool", pool}}, static_cast<double>(count));
    }
  };
  const auto pool_counter = [&](std::string_view name, std::string_view help,
                                std::uint64_t PoolCounts::* count) {
    writer.family(name, "counter", help);
    for (const auto& [pool, counts] : counts_) {
      writer.sample(name, {{"pool", pool}}, static_cast<double>(counts.*count));
    }
  };
  pool_counter("spillway_retries_total", "Attempts after an engine answered with an error.",
               &PoolCounts::retries);
  pool_counter("spillway_failovers_total", "Moves away from a replica that was not there.",
               &PoolCounts::failovers);
  pool_counter("spillway_unreadable_events_total", "Events that are no JSON, passed unchanged.",
               &PoolCounts::unreadable);
  pool_counter("spillway_replies_without_usage_total",
               "Good replies whose tokens are our own count.", &PoolCounts::usage_counted);
  counters("spillway_prompt_tokens_total", "Prompt tokens of good replies.", prompt_tokens_);
  counters("spillway_output_tokens_total", "Tokens that callers were given.", output_tokens_);
}

}  // namespace spillway
