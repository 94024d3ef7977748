#pragma once
// The embedded engine behind the OpenAI surface. The engine runs on a thread of its own that sleeps
// when there is nothing to do; requests go to it through a mailbox, tokens come back as batches
// posted to the server's thread, one batch a step. Public functions are the server's thread's.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "base/rng.h"
#include "engine/engine.h"
#include "prompt/text_stream.h"
#include "serving/backend.h"

namespace spillway {

class EmbeddedBackend : public Backend {
 public:
  // REQUIRES: io outlives it.
  EmbeddedBackend(boost::asio::io_context& io, std::unique_ptr<Engine> engine, std::uint64_t seed);
  ~EmbeddedBackend() override;

  std::variant<Started, OpenAiError> start(const GenerationRequest& request,
                                           GenerationEvents events) override;
  void cancel(GenerationId id) override;
  BackendStats stats() override;
  int max_model_len() const override { return context_length_; }

 private:
  // Open requests at once; more are refused with 503.
  static constexpr std::size_t kOpenMax = 1024;

  struct Order {
    GenerationId id = 0;
    bool cancel = false;
    Generation generation;  // where it is no cancellation
  };
  struct Token {
    GenerationId id = 0;
    TokenEvent event;
    std::string error;  // the engine refused the request: the only thing that comes of it
  };
  struct Open {
    GenerationEvents events;
    TextStream text;
    std::int64_t prompt_tokens = 0;
    std::int64_t tokens = 0;
  };

  std::variant<std::vector<TokenId>, OpenAiError> prompt_of(const GenerationRequest& request) const;
  void send(Order order);
  void run_engine();
  void obey(Order& order, std::vector<Token>& tokens);
  void deliver(const std::vector<Token>& tokens);
  void deliver(const Token& token);

  boost::asio::io_context& io_;
  std::unique_ptr<Engine>
      engine_;  // stepped by thread_; its tokenizer and chat format are read by both
  const int context_length_;
  Rng seeds_;
  GenerationId next_id_ = 1;
  std::unordered_map<GenerationId, Open> open_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  std::mutex mutex_;  // of the three below
  std::condition_variable wake_;
  std::vector<Order> mailbox_;
  EngineStats stats_;
  bool stopping_ = false;

  std::unordered_map<SequenceId, GenerationId> by_sequence_;  // these two are the engine thread's
  std::unordered_map<GenerationId, SequenceId> by_id_;
  std::jthread thread_;
};

}  // namespace spillway
