#pragma once
// The QoS class of a request: who is served first and degraded last. A caller names it with the
// header `x-spillway-class`; absent means normal.

#include <array>
#include <bitset>
#include <cstddef>
#include <optional>
#include <string_view>

namespace spillway {

enum class QosClass { kCritical, kHigh, kNormal };

constexpr std::size_t kQosClassCount = 3;
constexpr std::array<QosClass, kQosClassCount> kQosClasses = {QosClass::kCritical, QosClass::kHigh,
                                                              QosClass::kNormal};

constexpr std::size_t index_of(QosClass c) {
  return static_cast<std::size_t>(c);
}

constexpr std::string_view name_of(QosClass c) {
  constexpr std::array<std::string_view, kQosClassCount> kNames = {"critical", "high", "normal"};
  return kNames[index_of(c)];
}

constexpr std::optional<QosClass> qos_class_named(std::string_view name) {
  for (const QosClass c : kQosClasses) {
    if (name == name_of(c)) {
      return c;
    }
  }
  return std::nullopt;
}

// A set of classes: bit index_of(c).
using QosClassSet = std::bitset<kQosClassCount>;

}  // namespace spillway
