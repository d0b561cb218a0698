// Guards that release and acquire the GIL.
//
// nanobind's guards do not survive the end of the interpreter: Python then ends a daemon thread that acquires
// the GIL by forced unwinding, which calls std::terminate in C++. Here such a thread sleeps until the process
// exits.
#pragma once

#include <nanobind/nanobind.h>

namespace sparseleaf {

// Called around every wait for the GIL; before_gil does not return once the interpreter is ending.
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
