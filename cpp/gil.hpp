// Giving up Python's lock while a kernel works, and taking it again.
//
// nanobind's own guards do not survive the end of the interpreter: a daemon thread that then asks for the
// lock is ended by Python with a forced unwinding, which C++ answers with std::terminate. Here such a thread
// sleeps until the process is gone.
#pragma once

#include <nanobind/nanobind.h>

namespace sparseleaf {

// Around every wait for the lock; the first does not return once the interpreter ends.
void before_gil();
void after_gil();

class GilRelease {
  public:
    GilRelease() : state_(PyEval_SaveThread()) {}
    GilRelease(const GilRelease&) = delete;
    GilRelease& operator=(const GilRelease&) = delete;
    ~GilRelease() {
        before_gil();
        PyEval_RestoreThread(state_);
        after_gil();
    }

  private:
    PyThreadState* state_;
};

class GilAcquire {
  public:
    GilAcquire() {
        before_gil();
        state_ = PyGILState_Ensure();
        after_gil();
    }
    GilAcquire(const GilAcquire&) = delete;
    GilAcquire& operator=(const GilAcquire&) = delete;
    ~GilAcquire() { PyGILState_Release(state_); }

  private:
    PyGILState_STATE state_;
};

}  // namespace sparseleaf
