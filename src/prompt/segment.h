#pragma once
// A piece of a rendered prompt: plain text, or one control token spelled out. Keeping the two apart
// is what stops a caller's text from posing as a role marker. A plain value; anybody may use it.

#include <string>

namespace spillway {

struct Segment {
  std::string text;
  bool special = false;  // text names exactly one control token, "<|im_end|>"

  bool operator==(const Segment&) const = default;
};

}  // namespace spillway
