#pragma once
// Teacher forcing: the logits of a model at every position of given tokens, for comparing it with
// other implementations and for perplexity. One sequence at a time, no batching; one thread owns
// it.

#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "prompt/token.h"

namespace spillway {

class LoadedModel;

class Teacher {
 public:
  struct Options {
    int threads = 2;
    int chunk = 64;  // positions at once; the logits do not depend on it
  };

  // The model outlives it. Fails when an option is out of range.
  static Result<Teacher> create(const LoadedModel& model, const Options& options);

  Teacher(Teacher&&) noexcept;
  Teacher& operator=(Teacher&&) noexcept;
  ~Teacher();

  // Calls back for position 0, 1 ...: logits[v] is of vocabulary entry v coming after
  // tokens[position]; the span is valid inside the call. Fails when there are no tokens, more than
  // the model's context, or unknown ones.
  using Callback = std::function<void(std::size_t position, std::span<const float> logits)>;
  Status logits_of(std::span<const TokenId> tokens, const Callback& callback);

 private:
  struct Parts;
  explicit Teacher(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace spillway
