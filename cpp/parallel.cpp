// The thread pool: see parallel.hpp.
#include "parallel.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace sparseleaf {
namespace {

constexpr int kSpins = 6000;  // 0.25 ms: loops usually follow each other closely
constexpr int kLockSpins = 500;
constexpr size_t kCacheLine = 64;

inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// A thread allocates its exception state on the first throw, usually of std::bad_alloc, and the process would
// be terminated: allocate it before there is work.
inline void prepare_to_throw() {
    [[maybe_unused]] const volatile int thrown = std::uncaught_exceptions();
}

// Locks a mutex that is held for a few instructions. All threads that have waited for the same loop want it
// at once: if they slept, as they do in std::mutex::lock, the system would wake them one after the other,
// which takes longer than many loops.
class ShortLock {
  public:
    explicit ShortLock(std::mutex& mutex) : lock_(mutex, std::try_to_lock) {
        for (int spin = 0; spin < kLockSpins && !lock_.owns_lock(); ++spin) {
            pause();
            lock_.try_lock();
        }
        if (!lock_.owns_lock()) lock_.lock();  // its owner may not be running
    }

    std::unique_lock<std::mutex>& get() { return lock_; }

  private:
    std::unique_lock<std::mutex> lock_;
};

// One call of parallel_tasks. Shared ownership, since threads may access it after the caller has returned.
struct Job {
    const std::function<void(int64_t, int)>* task;
    int64_t n_tasks;
    int n_threads;
    std::atomic<int> joined{1};  // the caller is thread 0
    std::atomic<int> asleep{0};  // threads still to be woken
    // written by all threads, task by task: each in a cache line of its own
    alignas(kCacheLine) std::atomic<int64_t> next{0};
    alignas(kCacheLine) std::atomic<int64_t> finished{0};
    alignas(kCacheLine) std::atomic<bool> failed{false};
    std::exception_ptr error;

    bool open() const {
        return next.load(std::memory_order_relaxed) < n_tasks &&
               joined.load(std::memory_order_relaxed) < n_threads;
    }

    void work(int thread) {
        for (;;) {
            const int64_t number = next.fetch_add(1, std::memory_order_relaxed);
            if (number >= n_tasks) return;
            if (!failed.load(std::memory_order_relaxed)) {
                try {
                    (*task)(number, thread);
                } catch (...) {
                    if (!failed.exchange(true)) error = std::current_exception();
                }
            }
            if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 == n_tasks) finished.notify_all();
        }
    }
};

class Pool {
  public:
    void run(const std::shared_ptr<Job>& job) {
        {
            const ShortLock lock(mutex_);
            try {
                while (static_cast<int>(n_workers_) < job->n_threads - 1) {
                    std::thread([this] { serve(); }).detach();
                    ++n_workers_;
                }
            } catch (const std::system_error&) {
                // no more threads available: use the existing ones
            }
            jobs_.push_back(job);
            posted_.fetch_add(1, std::memory_order_release);
        }
        job->asleep.store(static_cast<int>(std::min<int64_t>(job->n_threads - 1, job->n_tasks - 1)));
        wake_two(*job);
        job->work(0);
        for (int spin = 0; spin < kSpins && job->finished.load(std::memory_order_acquire) < job->n_tasks;
             ++spin)
            pause();
        for (int64_t done; (done = job->finished.load(std::memory_order_acquire)) < job->n_tasks;)
            job->finished.wait(done);
        const ShortLock lock(mutex_);
        jobs_.erase(std::find(jobs_.begin(), jobs_.end(), job));
    }

  private:
    // Every thread that wakes up wakes two more: waking all threads itself would take the caller longer than
    // many loops.
    void wake_two(Job& job) {
        for (int i = 0; i < 2 && job.asleep.fetch_sub(1, std::memory_order_relaxed) > 0; ++i)
            wake_.notify_one();
    }

    std::shared_ptr<Job> find_open() {
        for (const auto& job : jobs_)
            if (job->open()) return job;
        return nullptr;
    }

    void serve() {
        prepare_to_throw();
        for (;;) {
            std::shared_ptr<Job> job;
            uint64_t seen = 0;
            {
                ShortLock lock(mutex_);
                wake_.wait(lock.get(), [&] { return (job = find_open()) != nullptr; });
                seen = posted_.load(std::memory_order_relaxed);
            }
            wake_two(*job);
            const int thread = job->joined.fetch_add(1);
            if (thread < job->n_threads) job->work(thread);
            job.reset();
            for (int spin = 0; spin < kSpins && posted_.load(std::memory_order_acquire) == seen; ++spin)
                pause();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::shared_ptr<Job>> jobs_;
    size_t n_workers_ = 0;
    alignas(kCacheLine) std::atomic<uint64_t> posted_{0};  // read by all waiting threads
};

// Never destroyed: threads may still sleep in it when the process exits.
Pool*& the_pool() {
    static Pool* pool = [] {
        // a forked child has no threads of its parent and needs a new pool
        pthread_atfork(nullptr, nullptr, [] { the_pool() = new Pool; });
        return new Pool;
    }();
    return pool;
}

}  // namespace

void parallel_tasks(int64_t n_tasks, int n_threads, const std::function<void(int64_t, int)>& task) {
    prepare_to_throw();
    if (n_threads <= 1 || n_tasks <= 1) {
        for (int64_t number = 0; number < n_tasks; ++number) task(number, 0);
        return;
    }
    const auto job = std::make_shared<Job>();
    job->task = &task;
    job->n_tasks = n_tasks;
    job->n_threads = n_threads;
    the_pool()->run(job);
    if (job->error) std::rethrow_exception(job->error);
}

}  // namespace sparseleaf
