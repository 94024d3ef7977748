#pragma once
// How long a server asks to be left alone: `retry-after-ms` (as OpenAI's services send it) before
// `Retry-After` (RFC 9110, section 10.2.3: seconds or a date). Pure; anybody may call it.

#include <optional>
#include <vector>

#include "base/time.h"
#include "wire/http1.h"

namespace spillway {

// Nothing when absent or not understood; zero for 0 and for dates that have passed; never more than
// ten years. The caller caps it.
std::optional<Duration> retry_after_of(const std::vector<HeaderField>& fields, WallTime now);

}  // namespace spillway
