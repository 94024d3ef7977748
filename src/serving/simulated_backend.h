#pragma once
// The simulated engine in real time: sim's cost model, its steps driven by a timer, its tokens as
// plausible words. A prompt's tokens are estimated, or said by the prompt itself: "sim:prompt=900".
// Owned by the server's thread.

#include <string>
#include <unordered_map>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/result.h"
#include "base/rng.h"
#include "serving/backend.h"
#include "sim/simulated_engine.h"

namespace spillway {

struct SimServerProfile {
  SimProfile engine;
  int max_model_len = 8192;
  std::int64_t output_mean =
      150;  // reply lengths where the request names none: exponential, from the seed
  std::uint64_t seed = 1;
};

// Reads a profile file; an error names file and line.
Result<SimServerProfile> load_sim_profile(std::string_view text, std::string_view file_name);

class SimulatedBackend : public Backend {
 public:
  SimulatedBackend(boost::asio::io_context& io, const SimServerProfile& profile);

  std::variant<Started, OpenAiError> start(const GenerationRequest& request,
                                           GenerationEvents events) override;
  void cancel(GenerationId id) override;
  void hang_until(Instant until) override;
  BackendStats stats() override;
  int max_model_len() const override { return profile_.max_model_len; }

 private:
  struct Running {
    GenerationEvents events;
    std::int64_t prompt_tokens = 0;
    std::string finish_reason;
  };

  void advance();
  void arm();

  SimServerProfile profile_;
  SimulatedEngine engine_;
  Rng rng_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer hang_timer_;
  std::optional<Instant> timer_at_;
  std::vector<SimToken> tokens_;
  std::unordered_map<SimId, Running> running_;
  SimId next_id_ = 1;
};

}  // namespace spillway
