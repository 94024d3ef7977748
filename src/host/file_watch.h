#pragma once
// Notices that the content of one of some files has changed, by looking every second: that also
// sees editors that write a new file and rename it, and files on any file system. Runs on the
// thread of its io_context.

#include <functional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "base/result.h"
#include "base/time.h"
#include "net/timer.h"

namespace spillway {

// The whole file; at most `bytes_max`.
Result<std::string> read_file(const std::string& path, std::size_t bytes_max = 16 * 1024 * 1024);

class FileWatch {
 public:
  FileWatch(boost::asio::io_context& io, std::vector<std::string> paths, Duration interval,
            std::function<void()> changed);

  // Other files from now on; their present content counts as known.
  void set_paths(std::vector<std::string> paths);

 private:
  void wait();
  std::vector<std::string> contents() const;

  Timer timer_;
  std::vector<std::string> paths_;
  Duration interval_;
  std::function<void()> changed_;
  std::vector<std::string> known_;
};

}  // namespace spillway
