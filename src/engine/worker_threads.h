#pragma once
// Persistent threads that share one loop's chunks with their owner. Chunks are claimed one by one,
// so a thread that the system has put aside costs a chunk's time and not the whole loop's. Between
// loops the threads spin briefly and then sleep. One thread owns the object and calls run().

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace spillway {

class WorkerThreads {
 public:
  // Starts threads - 1 of them; the owner is the remaining one. REQUIRES: threads >= 1.
  explicit WorkerThreads(std::size_t threads);
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  std::size_t size() const { return threads_.size() + 1; }

  // Calls body(chunk, worker) once for each chunk below `chunks`, worker being below size() and
  // never twice at the same time; returns when all are done. REQUIRES: body does not throw, and
  // chunks < 2^32.
  template <class Body>
  void run(std::size_t chunks, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run_task(chunks,
             {.call = [](void* context, std::size_t chunk,
                         std::size_t worker) { (*static_cast<Plain*>(context))(chunk, worker); },
              .context = &body});
  }

 private:
  struct Task {
    void (*call)(void*, std::size_t, std::size_t) = nullptr;
    void* context = nullptr;
  };

  void run_task(std::size_t chunks, Task task);
  bool run_one_chunk(std::size_t worker);
  void finish_chunk(std::uint32_t of);
  void wait_until_done(std::uint32_t chunks);
  void work(std::size_t worker);
  void wait_for_work();
  bool has_work() const;

  // The loop's number in the upper half, its unclaimed chunks in the lower: a claim fails when the
  // loop has changed, so a late thread can never take part in the wrong one.
  std::atomic<std::uint64_t> state_{0};
  std::atomic<std::uint32_t> done_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<bool> owner_sleeps_{false};
  Task task_;                 // written before state_, read after a claim
  std::uint32_t chunks_ = 0;  // the same

  std::mutex mutex_;  // only for going to sleep
  std::condition_variable work_;
  std::condition_variable all_done_;
  std::vector<std::thread> threads_;
};

}  // namespace spillway
