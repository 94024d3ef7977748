#pragma once
// Problems found in a file, each with its place: collected, so that one run of `spillway check`
// shows them all.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace spillway {

struct Finding {
  std::string file;
  int line = 0;         // 1-based line of the key
  std::string path;     // "spec.ladder[2].when.pressure"; empty for the whole document
  std::string problem;  // what is wrong
  std::string remedy;   // what would be right; may be empty
};

// `policy.yaml:14: spec.ladder[2].when.pressure: 140% is more than 100%; give a share such as 85%`
std::string to_text(const Finding& finding);

// All findings, one a line, as an Error.
Error to_error(const std::vector<Finding>& findings);

}  // namespace spillway
