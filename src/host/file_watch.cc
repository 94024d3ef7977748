#include "host/file_watch.h"

#include <fstream>
#include <sstream>
#include <utility>

#include <fmt/format.h>

namespace spillway {

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Error{ErrorCode::kNotFound, fmt::format("{}: the file cannot be read", path)};
  }
  std::ostringstream text;
  text << file.rdbuf();
  std::string out = std::move(text).str();
  if (file.bad() || out.size() > bytes_max) {
    return Error{
        ErrorCode::kTooLarge,
        fmt::format("{}: the file cannot be read, or is larger than {} bytes", path, bytes_max)};
  }
  return out;
}

FileWatch::FileWatch(boost::asio::io_context& io, std::vector<std::string> paths, Duration interval,
                     std::function<void()> changed)
    : timer_(io),
      paths_(std::move(paths)),
      interval_(interval),
      changed_(std::move(changed)),
      known_(contents()) {
  wait();
}

void FileWatch::set_paths(std::vector<std::string> paths) {
  if (paths != paths_) {
    paths_ = std::move(paths);
    known_ = contents();
  }
}

std::vector<std::string> FileWatch::contents() const {
  std::vector<std::string> out;
  for (const std::string& path : paths_) {
    const auto text = read_file(path);
    out.push_back(text ? "+" + *text : "-");  // a file that is gone differs from an empty one
  }
  return out;
}

void FileWatch::wait() {
  timer_.after(interval_, [this] {
    if (auto now = contents(); now != known_) {
      known_ = std::move(now);
      changed_();
    }
    wait();
  });
}

}  // namespace spillway
