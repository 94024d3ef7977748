#include "engine/worker_threads.h"

#include <atomic>
#include <vector>

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(WorkerThreads, RunsEachChunkOnce) {
  for (const std::size_t threads : {1U, 2U, 4U}) {
    SCOPED_TRACE(threads);
    WorkerThreads workers(threads);
    for (std::size_t chunks = 0; chunks < 70; ++chunks) {
      std::vector<std::atomic<int>> calls(chunks);
      workers.run(chunks, [&](std::size_t chunk, std::size_t) { ++calls[chunk]; });
      for (const auto& count : calls) {
        ASSERT_EQ(count, 1);
      }
    }
  }
}

// Plain variables on purpose: the thread sanitizer sees whether loops are ordered after each other.
TEST(WorkerThreads, EachLoopSeesWhatTheOneBeforeWrote) {
  WorkerThreads workers(3);
  std::vector<int> values(64);
  for (int round = 0; round < 2000; ++round) {
    workers.run(values.size(), [&](std::size_t chunk, std::size_t) {
      values[chunk] = values[chunk] <= round ? round : -1;
    });
    for (const int value : values) {
      ASSERT_EQ(value, round);
    }
    if (round % 2 == 0) {
      workers.run(3, [&](std::size_t chunk, std::size_t) { values[chunk] = round; });
    }
  }
}

TEST(WorkerThreads, GivesNoTwoChunksTheSameWorkerAtOnce) {
  WorkerThreads workers(3);
  std::vector<std::atomic<int>> inside(workers.size());
  std::atomic<bool> overlapped = false;

  for (int round = 0; round < 200; ++round) {
    workers.run(50, [&](std::size_t, std::size_t worker) {
      overlapped = overlapped || inside[worker].fetch_add(1) != 0;
      inside[worker].fetch_sub(1);
    });
  }

  EXPECT_FALSE(overlapped);
}

}  // namespace
}  // namespace spillway
