// The thread pool: see parallel.hpp.
//
// A loop of a tree takes some 20 to 200 µs, and the threads that wait for the next one spin meanwhile. They
// see it and join it without a lock: 16 threads that want the same mutex at the same time take longer than
// many loops.
#include "parallel.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace sparseleaf {
namespace {

constexpr int kSpins = 30000;                     // about 1 ms: loops usually follow each other closely
constexpr int kYieldEvery = 1000;                 // spins
constexpr std::chrono::microseconds kShared(10);  // a yield takes longer if another thread wants the core
constexpr size_t kCacheLine = 64;

inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Waits for a while, unless the core has other work; returns whether the condition came true.
template <typename Condition>
bool spin(Condition&& done) {
    for (int i = 1; i <= kSpins; ++i) {
        if (done()) return true;
        pause();
        if (i % kYieldEvery != 0) continue;
        const auto before = std::chrono::steady_clock::now();
        std::this_thread::yield();
        if (std::chrono::steady_clock::now() - before > kShared) break;
    }
    return done();
}

// A thread allocates its exception state on the first throw, usually of std::bad_alloc, and the process would
// be terminated: allocate it before there is work.
inline void prepare_to_throw() {
    [[maybe_unused]] const volatile int thrown = std::uncaught_exceptions();
}

using Task = std::function<void(int64_t, int)>;

// A call of parallel_tasks. It is used again for later calls and never freed, so that a thread that comes
// late may still look at it; while such a thread is inside, no other call takes it.
class Loop {
  public:
    // The calling thread has the loop from now on, unless this returns false.
    bool take() {
        if (taken_.load(std::memory_order_relaxed) || taken_.exchange(true, std::memory_order_acquire))
            return false;
        uint64_t crew = crew_.load(std::memory_order_relaxed);
        if (crew < kInside && crew_.compare_exchange_strong(crew, 1, std::memory_order_acq_rel)) return true;
        taken_.store(false, std::memory_order_release);
        return false;
    }

    void open(const Task& task, int64_t n_tasks, int n_threads) {
        task_ = &task;
        error_ = nullptr;
        n_tasks_.store(n_tasks, std::memory_order_relaxed);
        n_threads_.store(n_threads, std::memory_order_relaxed);
        next_.store(0, std::memory_order_relaxed);
        finished_.store(0, std::memory_order_relaxed);
        failed_.store(false, std::memory_order_relaxed);
        open_.store(true, std::memory_order_release);
    }

    // Waits for running tasks; the error of the first task that failed.
    std::exception_ptr close() {
        const int64_t n_tasks = n_tasks_.load(std::memory_order_relaxed);
        const auto finished = [&] { return finished_.load(std::memory_order_acquire); };
        if (!spin([&] { return finished() == n_tasks; }))
            for (int64_t done; (done = finished()) < n_tasks;) finished_.wait(done);
        std::exception_ptr error = std::move(error_);
        open_.store(false, std::memory_order_release);
        taken_.store(false, std::memory_order_release);
        return error;
    }

    // The number of a thread that works on the loop from now on until it leaves, or -1.
    int join() {
        if (!wants_more()) return -1;
        const auto thread = static_cast<uint32_t>(crew_.fetch_add(kInside + 1, std::memory_order_acq_rel));
        // closed meanwhile, or open for another call, which is as good
        if (open_.load(std::memory_order_acquire) &&
            static_cast<int>(thread) < n_threads_.load(std::memory_order_relaxed))
            return static_cast<int>(thread);
        leave();
        return -1;
    }

    void leave() { crew_.fetch_sub(kInside, std::memory_order_release); }

    void work(int thread) {
        const int64_t n_tasks = n_tasks_.load(std::memory_order_relaxed);
        int64_t n_done = 0;
        for (int64_t number; (number = next_.fetch_add(1, std::memory_order_relaxed)) < n_tasks; ++n_done) {
            if (failed_.load(std::memory_order_relaxed)) continue;
            try {
                (*task_)(number, thread);
            } catch (...) {
                if (!failed_.exchange(true)) error_ = std::current_exception();
            }
        }
        if (n_done > 0 && finished_.fetch_add(n_done, std::memory_order_acq_rel) + n_done == n_tasks)
            finished_.notify_all();
    }

    bool wants_more() const {
        return open_.load(std::memory_order_acquire) &&
               next_.load(std::memory_order_relaxed) < n_tasks_.load(std::memory_order_relaxed) &&
               static_cast<int>(static_cast<uint32_t>(crew_.load(std::memory_order_relaxed))) <
                   n_threads_.load(std::memory_order_relaxed);
    }

  private:
    static constexpr uint64_t kInside = uint64_t{1} << 32;

    const Task* task_ = nullptr;
    std::exception_ptr error_;
    std::atomic<int64_t> n_tasks_{0};
    std::atomic<int> n_threads_{0};
    std::atomic<bool> open_{false}, failed_{false};
    // written by all threads: each in a cache line of its own
    alignas(kCacheLine) std::atomic<bool> taken_{false};
    // threads that joined, and kInside times those inside
    alignas(kCacheLine) std::atomic<uint64_t> crew_{0};
    alignas(kCacheLine) std::atomic<int64_t> next_{0};
    alignas(kCacheLine) std::atomic<int64_t> finished_{0};
};

class Pool {
  public:
    void run(const Task& task, int64_t n_tasks, int n_threads) {
        start_workers(n_threads - 1);  // may throw: before a loop is taken
        Loop* loop = free_loop();
        if (loop == nullptr) {  // many threads of the process call at once
            for (int64_t number = 0; number < n_tasks; ++number) task(number, 0);
            return;
        }
        loop->open(task, n_tasks, n_threads);
        posted_.fetch_add(1);
        wake_two(*loop);
        loop->work(0);
        if (const std::exception_ptr error = loop->close()) std::rethrow_exception(error);
    }

  private:
    Loop* free_loop() {
        for (Loop& loop : loops_)
            if (loop.take()) return &loop;
        return nullptr;
    }

    void start_workers(int n) {
        if (n_workers_.load(std::memory_order_relaxed) >= n) return;
        const std::lock_guard lock(mutex_);
        try {
            for (; n_workers_.load(std::memory_order_relaxed) < n; ++n_workers_)
                std::thread([this] { serve(); }).detach();
        } catch (const std::system_error&) {
            // no more threads available: use the existing ones
        }
    }

    // Every thread that wakes up wakes two more: waking all threads itself would take the caller longer than
    // many loops.
    void wake_two(const Loop& loop) {
        for (int i = 0; i < 2 && n_asleep_.load() > 0 && loop.wants_more(); ++i) {
            std::unique_lock lock(mutex_);  // a thread that is about to sleep, sleeps
            lock.unlock();
            wake_.notify_one();
        }
    }

    void serve() {
        prepare_to_throw();
        for (;;) {
            const uint64_t seen = posted_.load();
            for (Loop& loop : loops_) {
                const int thread = loop.join();
                if (thread < 0) continue;
                wake_two(loop);
                loop.work(thread);
                loop.leave();
            }
            if (!spin([&] { return posted_.load() != seen; })) sleep(seen);
        }
    }

    // Until a loop is posted.
    void sleep(uint64_t seen) {
        std::unique_lock lock(mutex_);
        ++n_asleep_;
        wake_.wait(lock, [&] { return posted_.load() != seen; });
        --n_asleep_;
    }

    static constexpr size_t kLoops = 64;  // at once: nested ones, and those of other threads of the process

    std::array<Loop, kLoops> loops_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::atomic<int> n_workers_{0};
    alignas(kCacheLine) std::atomic<int> n_asleep_{0};
    alignas(kCacheLine) std::atomic<uint64_t> posted_{0};  // read by all waiting threads
};

// Never destroyed: threads may still sleep in it when the process exits. No function-local static: a process
// that forks while another thread initialises it would leave its child waiting for that thread.
std::atomic<Pool*> current_pool{nullptr};

Pool& pool() {
    Pool* pool = current_pool.load(std::memory_order_acquire);
    if (pool == nullptr) {
        auto made = std::make_unique<Pool>();
        if (current_pool.compare_exchange_strong(pool, made.get())) pool = made.release();
    }
    return *pool;
}

// a forked child has no threads of its parent and needs a new pool
[[maybe_unused]] const int kForgotten = pthread_atfork(nullptr, nullptr, [] { current_pool.store(nullptr); });

}  // namespace

void parallel_tasks(int64_t n_tasks, int n_threads, const std::function<void(int64_t, int)>& task) {
    prepare_to_throw();
    if (n_threads <= 1 || n_tasks <= 1) {
        for (int64_t number = 0; number < n_tasks; ++number) task(number, 0);
        return;
    }
    pool().run(task, n_tasks, n_threads);
}

}  // namespace sparseleaf
