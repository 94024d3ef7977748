#include "engine/mapped_file.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace spillway {
namespace {

Error failed(const std::string& path, std::string_view what, int error) {
  const auto code = error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInvalid;
  return {code, fmt::format("{}: {}: {}", path, what, std::generic_category().message(error))};
}

class OpenDescriptor {
 public:
  explicit OpenDescriptor(int fd) : fd_(fd) {}
  ~OpenDescriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  OpenDescriptor(const OpenDescriptor&) = delete;
  OpenDescriptor& operator=(const OpenDescriptor&) = delete;

  int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const OpenDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) {
    return failed(path, "cannot be opened", errno);
  }
  struct stat status{};
  if (::fstat(file.fd(), &status) != 0) {
    return failed(path, "cannot be examined", errno);
  }
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kInvalid, fmt::format("{}: is no regular file", path)};
  }
  if (status.st_size == 0) {
    return Error{ErrorCode::kInvalid, fmt::format("{}: is empty", path)};
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (address == MAP_FAILED) {
    return failed(path, "cannot be mapped", errno);
  }
  return MappedFile({static_cast<const std::byte*>(address), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    // munmap takes a mutable pointer although it changes nothing that we could see.
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

}  // namespace spillway
