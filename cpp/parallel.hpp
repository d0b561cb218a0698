// Tasks on several threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace sparseleaf {

// Runs task(number, thread) for every number in [0, n_tasks), on at most n_threads threads, this one among
// them; `thread` is below n_threads and no two threads that run at once share it. The first exception is
// thrown here.
//
// Why not an OpenMP loop: at its end every thread must have come by, even one that the system had no core for
// and that has nothing left to do. A tree is thousands of short loops, and on a machine that others use as
// well that wait made training 6 to 15 times slower. Here the caller takes tasks itself and waits only for
// those under way. The threads also survive a fork: a child makes its own.
void parallel_tasks(int64_t n_tasks, int n_threads, const std::function<void(int64_t, int)>& task);

constexpr int64_t kWorthAThread = 8192;  // fewer numbers are added up before a thread is awake

// Threads to add up so many numbers with.
inline int worth_threads(int64_t n_numbers, int n_threads) {
    return static_cast<int>(std::min<int64_t>(n_threads, n_numbers / kWorthAThread + 1));
}

}  // namespace sparseleaf
