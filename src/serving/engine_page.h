#pragma once
// The metrics page of an engine in vLLM's names and label shapes (V1), so that it is read like any
// vLLM. Owned by the server's thread.

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "serving/backend.h"
#include "wire/prometheus_text.h"

namespace spillway {

class EnginePage {
 public:
  explicit EnginePage(std::string model_name)
      : labels_{{"engine", "0"}, {"model_name", std::move(model_name)}} {}

  void first_token(Duration since_arrival) { first_token_.observe(to_seconds(since_arrival)); }
  void next_token(Duration since_last) { between_tokens_.observe(to_seconds(since_last)); }
  void ended(std::string_view finish_reason, Duration since_arrival) {
    ++ended_[std::string(finish_reason)];
    whole_.observe(to_seconds(since_arrival));
  }

  std::string text(const BackendStats& stats) const;

 private:
  struct Histogram {
    explicit Histogram(std::vector<double> b) : bounds(std::move(b)), counts(bounds.size() + 1) {}
    void observe(double value);

    std::vector<double> bounds;
    std::vector<std::uint64_t> counts;
    double sum = 0;
  };

  Labels labels_;
  // vLLM's own bounds.
  Histogram first_token_{
      {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160}};
  Histogram between_tokens_{
      {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}};
  Histogram whole_{{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960}};
  std::map<std::string, std::uint64_t> ended_;
};

}  // namespace spillway
