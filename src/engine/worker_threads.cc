#include "engine/worker_threads.h"

#include "base/check.h"

namespace spillway {
namespace {

constexpr int kSpins = 1000;  // some 50 microseconds
constexpr std::uint64_t kChunkMask = 0xffffffffU;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

WorkerThreads::WorkerThreads(std::size_t threads) {
  CHECK(threads >= 1);
  for (std::size_t worker = 1; worker < threads; ++worker) {
    threads_.emplace_back([this, worker] { work(worker); });
  }
}

WorkerThreads::~WorkerThreads() {
  stopping_ = true;
  {
    const std::lock_guard lock(mutex_);
    work_.notify_all();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void WorkerThreads::run_task(std::size_t chunks, Task task) {
  CHECK(chunks <= kChunkMask);
  if (chunks <= 1 || threads_.empty()) {
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      task.call(task.context, chunk, 0);
    }
    return;
  }
  task_ = task;
  chunks_ = static_cast<std::uint32_t>(chunks);
  done_ = 0;
  const std::uint64_t loop = (state_.load() >> 32U) + 1;
  state_ = (loop << 32U) | chunks;
  if (sleepers_ > 0) {
    const std::lock_guard lock(mutex_);
    work_.notify_all();
  }
  while (run_one_chunk(0)) {
  }
  wait_until_done(static_cast<std::uint32_t>(chunks));
}

bool WorkerThreads::run_one_chunk(std::size_t worker) {
  std::uint64_t seen = state_.load();
  while ((seen & kChunkMask) != 0) {
    if (state_.compare_exchange_weak(seen, seen - 1)) {
      const std::uint32_t of = chunks_;
      task_.call(task_.context, static_cast<std::size_t>((seen & kChunkMask) - 1), worker);
      finish_chunk(of);
      return true;
    }
  }
  return false;
}

void WorkerThreads::finish_chunk(std::uint32_t of) {
  if (done_.fetch_add(1) + 1 == of && owner_sleeps_) {
    const std::lock_guard lock(mutex_);
    all_done_.notify_one();
  }
}

void WorkerThreads::wait_until_done(std::uint32_t chunks) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (done_ == chunks) {
      return;
    }
    pause();
  }
  std::unique_lock lock(mutex_);
  owner_sleeps_ = true;
  all_done_.wait(lock, [&] { return done_ == chunks; });
  owner_sleeps_ = false;
}

bool WorkerThreads::has_work() const {
  return (state_.load() & kChunkMask) != 0 || stopping_;
}

void WorkerThreads::wait_for_work() {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (has_work()) {
      return;
    }
    pause();
  }
  std::unique_lock lock(mutex_);
  ++sleepers_;
  work_.wait(lock, [this] { return has_work(); });
  --sleepers_;
}

void WorkerThreads::work(std::size_t worker) {
  while (!stopping_) {
    if (!run_one_chunk(worker)) {
      wait_for_work();
    }
  }
}

}  // namespace spillway
