// Threads in kernels at the end of the interpreter: see gil.hpp.
#include "gil.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace nb = nanobind;

namespace sparseleaf {
namespace {

std::atomic<int> n_waiting{0};  // threads that wait for the GIL
std::atomic<bool> ending{false};
std::thread::id ending_thread;

// Called by atexit, before Python ends threads that acquire the GIL: from now on none does, and threads that
// wait already get it first.
void end_of_interpreter() {
    ending_thread = std::this_thread::get_id();
    ending.store(true);
    nb::gil_scoped_release release;
    while (n_waiting.load() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

void before_gil() {
    n_waiting.fetch_add(1);
    if (!ending.load() || std::this_thread::get_id() == ending_thread) return;
    n_waiting.fetch_sub(1);
    for (;;) ::pause();
}

void after_gil() {
    n_waiting.fetch_sub(1);
}

}  // namespace sparseleaf

void bind_gil(nb::module_&) {
    // a forked child has no other threads
    pthread_atfork(nullptr, nullptr, [] { sparseleaf::n_waiting.store(0); });
    nb::module_::import_("atexit").attr("register")(nb::cpp_function(&sparseleaf::end_of_interpreter));
}
