#pragma once
// CHECK(condition): aborts with file, line and the condition when shared state is broken.
// For bugs only; expected trouble (network, input, policy, overload) is a Result.

#include <cstdio>
#include <cstdlib>

namespace spillway {

[[noreturn]] inline void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
  std::abort();
}

}  // namespace spillway

#define CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::spillway::check_failed(__FILE__, __LINE__, #condition))
