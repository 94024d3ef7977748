#pragma once
// How long replies really get: a forecast of E[min(X, limit)], where X is the reply's length in
// tokens had it not been cut. Replies that we cut ourselves only say "at least this long"
// (censored), so the survival function is estimated by Kaplan and Meier (JASA 53, 1958) over
// logarithmic length buckets whose counts fade with every observation. Pure; owned by one strand.

#include <array>
#include <cstddef>
#include <cstdint>

namespace spillway {

class OutputLengths {
 public:
  struct Options {
    double prior_mean = 200;  // tokens; what a reply is taken for before any was seen
    double prior_weight = 3;  // how many observations the prior is worth
    double memory = 400;      // observations after which an old one has faded to 1/e
  };

  explicit OutputLengths(Options options);
  OutputLengths() : OutputLengths(Options{}) {}

  // Feeds one finished reply. `censored`: it ended because its budget was spent, not by itself.
  void observe(std::int64_t tokens, bool censored);

  // Expected tokens of a reply under this limit, in [0, limit]. O(1): it looks into a table that is
  // made anew after every reply at first, later after every sixteenth.
  double expected(std::int64_t limit) const;

 private:
  static constexpr std::size_t kBuckets = 68;  // four a doubling, up to 2^17 tokens
  static std::size_t bucket_of(double tokens);
  static double upper_edge(std::size_t bucket);
  static double lower_edge(std::size_t bucket) { return bucket == 0 ? 0 : upper_edge(bucket - 1); }
  void make_table();

  double fade_;
  int seen_ = 0;  // replies, up to those after which the table is made less often
  int not_in_table_ = 0;
  std::array<double, kBuckets> ended_{};     // replies that ended by themselves in this bucket
  std::array<double, kBuckets> censored_{};  // replies cut in this bucket

  // Of the survival function: its value at each bucket's lower edge, and its integral up to there.
  std::array<double, kBuckets + 1> survival_{};
  std::array<double, kBuckets + 1> integral_{};
};

}  // namespace spillway
