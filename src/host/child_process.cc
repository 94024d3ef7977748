#include "host/child_process.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace spillway {

namespace {

// In the child, before exec: the sockets become descriptors 3, 4 ... and are named.
void hand_over(const std::map<std::string, int>& sockets) {
  constexpr int kFirst = 3;
  constexpr int kAbove = 100;  // out of the way of those that are about to be overwritten
  std::vector<int> moved;
  std::string names;
  for (const auto& [name, socket] : sockets) {
    moved.push_back(::fcntl(socket, F_DUPFD_CLOEXEC, kAbove));
    names += (names.empty() ? "" : ":") + name;
  }
  for (std::size_t i = 0; i < moved.size(); ++i) {
    ::dup2(moved[i], kFirst + static_cast<int>(i));
  }
  // NOLINTBEGIN(concurrency-mt-unsafe): this is the only thread of a new process.
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  ::setenv("LISTEN_FDS", std::to_string(moved.size()).c_str(), 1);
  ::setenv("LISTEN_FDNAMES", names.c_str(), 1);
  // NOLINTEND(concurrency-mt-unsafe)
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& command,
                                         const Options& options) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) {
    arguments.push_back(const_cast<char*>(word.c_str()));  // execvp does not write to them
  }
  arguments.push_back(nullptr);
  // The pipe closes when exec succeeds, and carries errno when it does not.
  std::array<int, 2> pipe_ends{};
  if (::pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
    return Error{ErrorCode::kUnavailable, fmt::format("pipe: {}", ::strerrordesc_np(errno))};
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    return Error{ErrorCode::kUnavailable, fmt::format("fork: {}", ::strerrordesc_np(errno))};
  }
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
      ::_exit(127);
    }
    ::setpgid(0, 0);  // Ctrl-C is for us; we stop the child ourselves
    if (options.nice != 0) {
      ::setpriority(PRIO_PROCESS, 0, options.nice);
    }
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);  // NOLINT(concurrency-mt-unsafe): one thread
    const int report = ::fcntl(pipe_ends[1], F_DUPFD_CLOEXEC, 200);
    pipe_ends[1] = report >= 0 ? report : pipe_ends[1];
    if (!options.sockets.empty()) {
      hand_over(options.sockets);
    }
    ::execvp(arguments[0], arguments.data());
    const int why = errno;
    [[maybe_unused]] const ssize_t written = ::write(pipe_ends[1], &why, sizeof why);
    ::_exit(127);
  }
  ::close(pipe_ends[1]);
  int why = 0;
  const ssize_t got = ::read(pipe_ends[0], &why, sizeof why);
  ::close(pipe_ends[0]);
  if (got > 0) {
    ::waitpid(pid, nullptr, 0);
    return Error{ErrorCode::kNotFound, fmt::format("{}: {}", command[0], ::strerrordesc_np(why))};
  }
  return ChildProcess(pid);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      ended_(std::exchange(other.ended_, true)),
      exit_code_(other.exit_code_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    stop(std::chrono::seconds(5));
    pid_ = std::exchange(other.pid_, 0);
    ended_ = std::exchange(other.ended_, true);
    exit_code_ = other.exit_code_;
  }
  return *this;
}

ChildProcess::~ChildProcess() {
  stop(std::chrono::seconds(5));
}

bool ChildProcess::ended() {
  int status = 0;
  if (!ended_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
    ended_ = true;
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return ended_;
}

void ChildProcess::signal(int number) {
  if (!ended()) {
    ::kill(pid_, number);
  }
}

void ChildProcess::stop(Duration grace) {
  if (ended()) {
    return;
  }
  ::kill(pid_, SIGTERM);
  constexpr auto kStep = std::chrono::milliseconds(10);
  for (Duration waited{}; waited < grace; waited += kStep) {
    if (ended()) {
      return;
    }
    std::this_thread::sleep_for(kStep);
  }
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ended_ = true;
}

namespace {

// The inode of the socket that listens on this port, from /proc/net/tcp and tcp6.
std::string listening_inode(std::uint16_t port) {
  const std::string wanted = fmt::format(":{:04X}", port);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, retries, user, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> retries >> user >> timeout >>
          inode;
      if (local.ends_with(wanted) && state == "0A") {
        return inode;
      }
    }
  }
  return {};
}

}  // namespace

std::string port_holder(std::uint16_t port) {
  namespace fs = std::filesystem;
  const std::string inode = listening_inode(port);
  if (inode.empty()) {
    return "another process";
  }
  const std::string wanted = "socket:[" + inode + "]";
  std::error_code ignored;
  for (const auto& process : fs::directory_iterator("/proc", ignored)) {
    const std::string pid = process.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    for (const auto& descriptor : fs::directory_iterator(process.path() / "fd", ignored)) {
      if (fs::read_symlink(descriptor.path(), ignored) == wanted) {
        std::ifstream name_file(process.path() / "comm");
        std::string name;
        std::getline(name_file, name);
        return fmt::format("{} (pid {})", name, pid);
      }
    }
  }
  return "another process";
}

}  // namespace spillway
