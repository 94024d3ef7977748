#include "policy/findings.h"

#include <fmt/format.h>

namespace spillway {

std::string to_text(const Finding& finding) {
  std::string text = fmt::format("{}:{}: ", finding.file, finding.line);
  if (!finding.path.empty()) {
    text += finding.path + ": ";
  }
  text += finding.problem;
  if (!finding.remedy.empty()) {
    text += "; " + finding.remedy;
  }
  return text;
}

Error to_error(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += (text.empty() ? "" : "\n") + to_text(finding);
  }
  return Error{ErrorCode::kInvalid, text};
}

}  // namespace spillway
