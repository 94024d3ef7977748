#include "wire/retry_after.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace spillway {
namespace {

constexpr double kSecondsMax = 10.0 * 365 * 24 * 3600;

std::optional<double> not_negative(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (stopped != end || text.empty() || text.front() == '-') {
    return std::nullopt;
  }
  if (error == std::errc::result_out_of_range) {
    return kSecondsMax;
  }
  return error == std::errc{} && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<int> digits(std::string_view text) {
  int value = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && stopped == text.data() + text.size() ? std::optional(value)
                                                                      : std::nullopt;
}

// "Wed, 21 Oct 2037 07:28:00 GMT"
std::optional<WallTime> http_date(std::string_view text) {
  static constexpr std::array<std::string_view, 12> kMonths = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  if (text.size() != 29 || text.substr(3, 2) != ", " || !text.ends_with(" GMT")) {
    return std::nullopt;
  }
  const auto month = std::ranges::find(kMonths, text.substr(8, 3));
  const auto day = digits(text.substr(5, 2));
  const auto year = digits(text.substr(12, 4));
  const auto hour = digits(text.substr(17, 2));
  const auto minute = digits(text.substr(20, 2));
  const auto second = digits(text.substr(23, 2));
  if (month == kMonths.end() || !day || !year || !hour || !minute || !second) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{
      std::chrono::year(*year),
      std::chrono::month(static_cast<unsigned>(month - kMonths.begin() + 1)),
      std::chrono::day(static_cast<unsigned>(*day))};
  // Beyond 2200, nanoseconds overflow.
  if (!date.ok() || *year > 2200 || *year < 1970 || *hour > 23 || *minute > 59 || *second > 60) {
    return std::nullopt;
  }
  return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(*hour) +
         std::chrono::minutes(*minute) + std::chrono::seconds(*second);
}

}  // namespace

std::optional<Duration> retry_after_of(const std::vector<HeaderField>& fields, WallTime now) {
  if (const auto text = find_field(fields, "retry-after-ms")) {
    if (const auto ms = not_negative(*text)) {
      return from_seconds(std::min(*ms / 1000, kSecondsMax));
    }
  }
  const auto text = find_field(fields, "retry-after");
  if (!text) {
    return std::nullopt;
  }
  if (const auto seconds = not_negative(*text)) {
    return from_seconds(std::min(*seconds, kSecondsMax));
  }
  if (const auto date = http_date(*text)) {
    return std::max<Duration>(*date - now, Duration{});
  }
  return std::nullopt;
}

}  // namespace spillway
