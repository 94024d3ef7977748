#include "policy/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

namespace spillway {
namespace {

struct Quantity {
  double number;
  std::string_view unit;
};

// "8 MiB" -> {8, "MiB"}. Decimal digits with at most one point; no sign, exponent, or leading zero
// ("010" reads as eight in some YAML readers).
std::optional<Quantity> split(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && ((text[end] >= '0' && text[end] <= '9') || text[end] == '.')) {
    ++end;
  }
  if (end == 0 || (end > 1 && text[0] == '0' && text[1] != '.') || text[0] == '.') {
    return std::nullopt;
  }
  double number = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + end, number);
  if (error != std::errc{} || stopped != text.data() + end || number > 1e15) {
    return std::nullopt;
  }
  std::string_view unit = text.substr(end);
  if (unit.starts_with(' ')) {
    unit.remove_prefix(1);
  }
  return Quantity{number, unit};
}

template <std::size_t N>
std::optional<double> scaled(std::string_view text,
                             const std::array<std::pair<std::string_view, double>, N>& units) {
  const std::optional<Quantity> quantity = split(text);
  if (!quantity) {
    return std::nullopt;
  }
  for (const auto& [name, factor] : units) {
    if (quantity->unit == name) {
      return quantity->number * factor;
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> whole(std::optional<double> number) {
  if (!number || *number != std::floor(*number) || *number > 9e15) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*number);
}

using Unit = std::pair<std::string_view, double>;

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  const auto seconds = scaled(text, std::array{Unit{"us", 1e-6}, Unit{"ms", 1e-3}, Unit{"s", 1},
                                               Unit{"m", 60}, Unit{"h", 3600}});
  if (!seconds || *seconds > 1e8) {
    return std::nullopt;
  }
  return Duration{static_cast<std::int64_t>(std::llround(*seconds * 1e9))};
}

std::optional<double> parse_share(std::string_view text) {
  return scaled(text, std::array{Unit{"%", 0.01}});
}

std::optional<std::int64_t> parse_tokens(std::string_view text) {
  return whole(scaled(text, std::array{Unit{"tokens", 1}, Unit{"token", 1}}));
}

std::optional<double> parse_token_rate(std::string_view text) {
  return scaled(text, std::array{Unit{"tokens/s", 1}});
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  return whole(scaled(text, std::array{Unit{"bytes", 1}, Unit{"KiB", 1024}, Unit{"MiB", 1048576},
                                       Unit{"GiB", 1073741824}}));
}

std::optional<std::int64_t> parse_count(std::string_view text) {
  if (text.find('.') != std::string_view::npos) {
    return std::nullopt;
  }
  return whole(scaled(text, std::array{Unit{"", 1}}));
}

std::optional<double> parse_number(std::string_view text) {
  return scaled(text, std::array{Unit{"", 1}});
}

}  // namespace spillway
