#pragma once
// Numbers with their units, as the files write them: `30s`, `85%`, `512 tokens`, `8 MiB`. A number
// without its unit is refused where one is needed. Pure; each returns nothing when the text is
// something else.

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/time.h"

namespace spillway {

std::optional<Duration> parse_duration(
    std::string_view text);                                // 50us 200ms 30s 2m 1h, blank allowed
std::optional<double> parse_share(std::string_view text);  // 85% -> 0.85; may be more than 1
std::optional<std::int64_t> parse_tokens(std::string_view text);  // 512 tokens
std::optional<double> parse_token_rate(std::string_view text);    // 250 tokens/s
std::optional<std::int64_t> parse_bytes(std::string_view text);   // 32 KiB 8 MiB 1 GiB 512 bytes
std::optional<std::int64_t> parse_count(std::string_view text);   // 256; no leading zero, no sign
std::optional<double> parse_number(std::string_view text);        // 0.25

}  // namespace spillway
