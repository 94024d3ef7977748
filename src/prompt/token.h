#pragma once
// A token of a model's vocabulary, as the model file numbers it.

#include <cstdint>

namespace spillway {

using TokenId = std::int32_t;

}  // namespace spillway
