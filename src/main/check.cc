// spillway check: are these files valid?
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "host/file_watch.h"
#include "main/commands.h"
#include "main/snapshot_files.h"

namespace spillway {
namespace {

// A policy says so in its kind; everything else is taken for a configuration.
bool looks_like_policy(const std::string& text) {
  return text.find("DegradationPolicy") != std::string::npos;
}

// Prints what is wrong and what is risky; true when the file is valid.
bool check_file(const std::string& path) {
  const auto text = read_file(path);
  if (!text) {
    fmt::print("{}\n", text.error().message);
    return false;
  }
  std::vector<Finding> warnings;
  std::string problem;
  std::string summary;
  if (looks_like_policy(*text)) {
    const auto policy = load_policy(*text, path, &warnings);
    problem = policy ? "" : policy.error().message;
    summary = policy ? fmt::format("policy {}@{}, {} levels", policy->name, policy->version,
                                   policy->rungs.size())
                     : "";
  } else {
    const auto files = read_snapshot(path);
    problem = files ? "" : files.error().message;
    if (files) {
      warnings = files->warnings;
      summary =
          fmt::format("configuration, {} pools, policy {}@{}", files->snapshot->config.pools.size(),
                      files->snapshot->policy->name, files->snapshot->policy->version);
    }
  }
  for (const Finding& warning : warnings) {
    fmt::print("warning: {}\n", to_text(warning));
  }
  if (!problem.empty()) {
    fmt::print("{}\n", problem);
    return false;
  }
  fmt::print("{}: valid ({})\n", path, summary);
  return true;
}

}  // namespace

void add_check_command(CLI::App& app, int& exit_code) {
  const auto paths = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand(
      "check", "Says whether configurations and policies are valid, and where not, why");
  command->add_option("FILE", *paths, "Configuration or policy files")->required();
  command->footer(
      "Exit code 1 when one is not valid.\nExample: spillway check examples/spillway.yaml");
  command->callback([paths, &exit_code] {
    for (const std::string& path : *paths) {
      exit_code = check_file(path) ? exit_code : 1;
    }
  });
}

}  // namespace spillway
