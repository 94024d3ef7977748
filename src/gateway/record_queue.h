#pragma once
// What the data path hands to the operators' thread: records of ended requests and log lines about
// the gateway itself. The one mutex between the two threads, held for a push or a swap. Bounded:
// what does not fit is counted.

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "session/request_record.h"

namespace spillway {

class RecordQueue {
 public:
  struct Batch {
    std::vector<RequestRecord> records;
    std::vector<std::string> lines;
  };

  void push(RequestRecord record) {
    const std::lock_guard lock(mutex_);
    if (batch_.records.size() >= kRecordsMax) {
      ++lost_;
      return;
    }
    batch_.records.push_back(std::move(record));
  }

  void push_line(std::string line) {
    const std::lock_guard lock(mutex_);
    if (batch_.lines.size() >= kLinesMax) {
      ++lost_;
      return;
    }
    batch_.lines.push_back(std::move(line));
  }

  Batch take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(batch_, {});
  }

  std::uint64_t lost() const {
    const std::lock_guard lock(mutex_);
    return lost_;
  }

 private:
  static constexpr std::size_t kRecordsMax = 100'000;
  static constexpr std::size_t kLinesMax = 10'000;

  mutable std::mutex mutex_;
  Batch batch_;
  std::uint64_t lost_ = 0;
};

}  // namespace spillway
