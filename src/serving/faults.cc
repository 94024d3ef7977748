#include "serving/faults.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace spillway {

const FaultOrder Faults::kNothing{};

Result<FaultOrder> parse_fault(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, Fault>, 10> kNames = {
      {{"none", Fault::kNone},
       {"hang", Fault::kHang},
       {"die", Fault::kDie},
       {"slow_first_token", Fault::kSlowFirstToken},
       {"stall", Fault::kStall},
       {"cut", Fault::kCut},
       {"malformed_chunk", Fault::kMalformedChunk},
       {"wrong_status", Fault::kWrongStatus},
       {"error_event", Fault::kErrorEvent},
       {"frozen_metrics", Fault::kFrozenMetrics}}};
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("fault") || !json["fault"].is_string()) {
    return Error{ErrorCode::kInvalid,
                 R"(give {"fault":"NAME"}, and where wanted for_s, delay_s, after_tokens, status)"};
  }
  FaultOrder order;
  const std::string name = json["fault"];
  std::string known;
  bool found = false;
  for (const auto& [fault_name, fault] : kNames) {
    known += (known.empty() ? "" : ", ") + std::string(fault_name);
    if (name == fault_name) {
      order.fault = fault;
      found = true;
    }
  }
  if (!found) {
    return Error{ErrorCode::kInvalid,
                 fmt::format("there is no fault \"{}\"; known: {}", name, known)};
  }
  const auto number = [&](const char* key, double otherwise) {
    return json.contains(key) && json[key].is_number() ? json[key].get<double>() : otherwise;
  };
  order.lasts = from_seconds(number("for_s", to_seconds(order.lasts)));
  order.delay = from_seconds(number("delay_s", to_seconds(order.delay)));
  order.after_tokens =
      static_cast<std::int64_t>(number("after_tokens", static_cast<double>(order.after_tokens)));
  order.status = static_cast<int>(number("status", order.status));
  if (order.status < 400 || order.status > 599) {
    return Error{ErrorCode::kInvalid, "status must be from 400 to 599"};
  }
  return order;
}

}  // namespace spillway
