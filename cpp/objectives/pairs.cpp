// The losses whose outputs are independent: loops over the functions of losses.h.
#include "dense.hpp"

namespace sparseleaf {
namespace {

#define SPARSELEAF_PAIR_LOSS(function, name, constant_hessian)                                 \
    SPARSELEAF_WIDE                                                                            \
    void function(const OutputRow& row) {                                                      \
        const auto [z, y, label, n, parameter, g, h] = row;                                    \
        for (int64_t j = 0; j < n; ++j) sl::loss::function(z[j], y[j], parameter, g[j], h[j]); \
    }                                                                                          \
    const RegisterDenseLoss function##_registered(name, {function, constant_hessian});

SL_PAIR_LOSSES(SPARSELEAF_PAIR_LOSS)

}  // namespace
}  // namespace sparseleaf
