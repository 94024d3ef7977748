#include "main/snapshot_files.h"

#include <filesystem>
#include <utility>

#include "host/file_watch.h"

namespace spillway {

Result<SnapshotFiles> read_snapshot(const std::string& config_path) {
  SnapshotFiles out;
  out.paths.push_back(config_path);
  const auto text = read_file(config_path);
  if (!text) {
    return text.error();
  }
  auto config = load_config(*text, config_path, &out.warnings);
  if (!config) {
    return config.error();
  }
  Policy policy;
  if (!config->policy_file.empty()) {
    const std::string path =
        std::filesystem::path(config_path).replace_filename(config->policy_file).string();
    out.paths.push_back(path);
    const auto policy_text = read_file(path);
    if (!policy_text) {
      return Error{ErrorCode::kNotFound, policy_text.error().message +
                                             " (named by the key policy of " + config_path + ")"};
    }
    auto loaded = load_policy(*policy_text, path, &out.warnings);
    if (!loaded) {
      return loaded.error();
    }
    policy = *std::move(loaded);
  }
  Snapshot snapshot{*std::move(config), std::make_shared<const Policy>(std::move(policy))};
  out.snapshot = std::make_shared<const Snapshot>(std::move(snapshot));
  return out;
}

}  // namespace spillway
