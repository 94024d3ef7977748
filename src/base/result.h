#pragma once
// Result<T>: a value or an Error. The whole of our error handling; see CONTRIBUTING.md, Errors.
// Anybody may use it from any thread; it owns what it holds.

#include <string>
#include <utility>
#include <variant>

namespace spillway {

enum class ErrorCode {
  kInvalid,      // the input is wrong; trying again will not help
  kNotFound,     // the named thing does not exist
  kUnavailable,  // nobody is there, or the resource is spent; trying again may help
  kTimeout,      // it took longer than allowed
  kTooLarge,     // beyond a stated bound
};

// What went wrong, where, and what to do: "policy.yaml:14: ladder[2].when: 1.4 is more than 1".
struct Error {
  ErrorCode code = ErrorCode::kInvalid;
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  // Implicit on purpose: `return value;` and `return Error{...};` both read plainly.
  // NOLINTBEGIN(google-explicit-constructor)
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  // NOLINTEND(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok().
  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T operator*() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }

  // REQUIRES: !ok().
  const Error& error() const& { return *std::get_if<1>(&state_); }
  Error error() && { return std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

struct Ok {};
using Status = Result<Ok>;

}  // namespace spillway
