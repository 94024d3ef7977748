#include "main/load_trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>

namespace spillway {
namespace {

QosClass draw_class(const LoadShape& shape, Rng& rng) {
  const double x = rng.uniform() * (shape.critical + shape.high + shape.normal);
  return x < shape.critical                ? QosClass::kCritical
         : x < shape.critical + shape.high ? QosClass::kHigh
                                           : QosClass::kNormal;
}

std::int64_t shaped(std::int64_t tokens, double scale, std::int64_t max, std::int64_t& clamped) {
  const auto scaled = std::max<std::int64_t>(
      static_cast<std::int64_t>(std::llround(static_cast<double>(tokens) * scale)), 1);
  clamped += scaled > max ? 1 : 0;
  return std::min(scaled, max);
}

void add(Load& load, Arrival arrival, const LoadShape& shape, Rng& rng) {
  arrival.at = from_seconds(to_seconds(arrival.at) / shape.speed);
  arrival.prompt_tokens =
      shaped(arrival.prompt_tokens, shape.scale, shape.max_prompt, load.prompts_clamped);
  arrival.output_tokens =
      shaped(arrival.output_tokens, shape.scale, shape.max_output, load.outputs_clamped);
  arrival.qos_class = draw_class(shape, rng);
  load.arrivals.push_back(arrival);
}

// The first three numbers of a line.
std::optional<std::array<double, 3>> read_line(std::string_view line) {
  std::array<double, 3> out{};
  for (double& value : out) {
    const std::size_t comma = line.find(',');
    const std::string_view word = line.substr(0, comma);
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size() || word.empty() || value < 0) {
      return std::nullopt;
    }
    line = comma == std::string_view::npos ? std::string_view() : line.substr(comma + 1);
  }
  return out;
}

}  // namespace

Result<Load> load_from_trace(std::string_view csv, std::string_view file_name,
                             const LoadShape& shape, Rng& rng) {
  Load load;
  int number = 0;
  std::optional<double> first;
  while (!csv.empty() && load.arrivals.size() < shape.limit) {
    const std::size_t end = csv.find('\n');
    std::string_view line = csv.substr(0, end);
    csv = end == std::string_view::npos ? std::string_view() : csv.substr(end + 1);
    ++number;
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    const bool names = number == 1 && line.starts_with("timestamp");
    if (line.empty() || line.front() == '#' || names) {
      continue;
    }
    const auto values = read_line(line);
    if (!values) {
      return Error{ErrorCode::kInvalid,
                   fmt::format("{}:{}: \"{}\" is not timestamp_ms,prompt_tokens,output_tokens",
                               file_name, number, line.substr(0, 80))};
    }
    first = first.value_or((*values)[0]);
    add(load,
        {.at = from_seconds(((*values)[0] - *first) / 1000),
         .prompt_tokens = static_cast<std::int64_t>((*values)[1]),
         .output_tokens = static_cast<std::int64_t>((*values)[2])},
        shape, rng);
  }
  std::ranges::sort(load.arrivals, {}, &Arrival::at);
  return load;
}

Load load_at_rate(double rate, Duration duration, std::int64_t prompt, std::int64_t output,
                  const LoadShape& shape, Rng& rng) {
  Load load;
  double at = 0;
  while (load.arrivals.size() < shape.limit) {
    at += -std::log(1 - rng.uniform()) / rate;
    if (at >= to_seconds(duration)) {
      break;
    }
    add(load, {.at = from_seconds(at), .prompt_tokens = prompt, .output_tokens = output}, shape,
        rng);
  }
  return load;
}

Status parse_class_mix(std::string_view text, LoadShape& shape) {
  shape.critical = shape.high = shape.normal = 0;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const std::size_t equals = part.find('=');
    const auto named = qos_class_named(part.substr(0, equals));
    double value = 0;
    const std::string_view number = equals == std::string_view::npos ? "" : part.substr(equals + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (!named || error != std::errc{} || end != number.data() + number.size() || value < 0) {
      return Error{
          ErrorCode::kInvalid,
          fmt::format("\"{}\" is no part of a mix; give critical=20,high=30,normal=50", part)};
    }
    (*named == QosClass::kCritical ? shape.critical
     : *named == QosClass::kHigh   ? shape.high
                                   : shape.normal) = value;
  }
  if (shape.critical + shape.high + shape.normal <= 0) {
    return Error{ErrorCode::kInvalid, "the mix is empty; give critical=20,high=30,normal=50"};
  }
  return Ok{};
}

}  // namespace spillway
