// A thread pool for short parallel loops.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace sparseleaf {

// Runs task(number, thread) for every number in [0, n_tasks) on at most n_threads threads, including the
// caller; `thread` is less than n_threads and unique among concurrent threads. Rethrows the first exception.
//
// Why not OpenMP: at the end of a loop every thread must reach the barrier, even one that the system has not
// scheduled and that has no work left. A tree takes thousands of short loops, and on a shared machine that
// wait made training 6 to 15 times slower. Here the caller takes tasks itself and waits only for running
// ones. It is also safe to fork, outside of tasks: a child process creates new threads.
void parallel_tasks(int64_t n_tasks, int n_threads, const std::function<void(int64_t, int)>& task);

constexpr int64_t kAddsPerThread = 8192;  // fewer additions take less time than waking a thread

// Number of threads worth using for this many additions.
inline int threads_for(int64_t n_numbers, int n_threads) {
    return static_cast<int>(std::min<int64_t>(n_threads, n_numbers / kAddsPerThread + 1));
}

}  // namespace sparseleaf
