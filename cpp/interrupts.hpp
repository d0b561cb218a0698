// Ctrl-C during long kernels.
#pragma once

#include <chrono>

#include "gil.hpp"

namespace sparseleaf {

// Checks for Ctrl-C in a loop, at most every 200 ms.
class Interrupts {
  public:
    void look() {
        const auto now = std::chrono::steady_clock::now();
        if (now - last_ < std::chrono::milliseconds(200)) return;
        last_ = now;
        GilAcquire acquire;
        if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
    }

  private:
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace sparseleaf
