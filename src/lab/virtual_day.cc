// A day of traffic with failing engines from many seeds: virtual_day [SEEDS] [HOURS] [FIRST SEED].
// Prints one line a seed and a sum; exit code 1 when an invariant was violated.
#include <cstdlib>

#include <fmt/format.h>

#include "lab/byte_world.h"

int main(int argc, char** argv) {
  using namespace spillway;
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 100;
  const int hours = argc > 2 ? std::atoi(argv[2]) : 24;
  const int first = argc > 3 ? std::atoi(argv[3]) : 1;
  std::uint64_t violations = 0;
  ByteWorld::Report sum;
  for (int seed = first; seed < first + seeds; ++seed) {
    const ByteWorld::Report report =
        ByteWorld({.seed = static_cast<std::uint64_t>(seed), .span = std::chrono::hours(hours)})
            .run();
    fmt::print(
        "seed {:>4}  requests {:>6}  ok {:>6}  retries {:>4}  failovers {:>4}  faults {:>4}  "
        "level {}  violations {}  digest {:016x}\n",
        seed, report.requests, report.outcomes.at("ok"), report.retries, report.failovers,
        report.faults, report.level_max, report.violations.size(), report.digest);
    for (const std::string& violation : report.violations) {
      fmt::print("  {}\n", violation);
    }
    std::fflush(stdout);
    violations += report.violations.size();
    sum.requests += report.requests;
    sum.left += report.left;
    sum.retries += report.retries;
    sum.failovers += report.failovers;
    sum.faults += report.faults;
    sum.reloads += report.reloads;
    for (const auto& [outcome, count] : report.outcomes) {
      sum.outcomes[outcome] += count;
    }
  }
  fmt::print(
      "\n{} seeds of {} h: {} requests, {} retries, {} failovers, {} faults, {} reloads, {} "
      "callers left, {} violations\n",
      seeds, hours, sum.requests, sum.retries, sum.failovers, sum.faults, sum.reloads, sum.left,
      violations);
  for (const auto& [outcome, count] : sum.outcomes) {
    fmt::print("  {:<14}{}\n", outcome, count);
  }
  return violations == 0 ? 0 : 1;
}
