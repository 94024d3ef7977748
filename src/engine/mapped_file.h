#pragma once
// A file mapped read-only into memory. Move-only; any thread may read. Whoever shortens the file
// while it is mapped ends the process (SIGBUS): model files are replaced by rename, not in place.

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace spillway {

class MappedFile {
 public:
  // Fails with the path and the system's reason.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Page-aligned.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace spillway
