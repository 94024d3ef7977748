#pragma once
// The machine's clocks: the only place where pure code's Instant and WallTime come from. Any
// thread.

#include "base/time.h"

namespace spillway {

Instant monotonic_now();
WallTime wall_now();

}  // namespace spillway
