#pragma once
// The configuration file and the policy file that it names, as one snapshot. Any thread.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/findings.h"
#include "session/services.h"

namespace spillway {

struct SnapshotFiles {
  std::shared_ptr<const Snapshot> snapshot;
  std::vector<std::string> paths;  // what was read
  std::vector<Finding> warnings;
};

Result<SnapshotFiles> read_snapshot(const std::string& config_path);

}  // namespace spillway
