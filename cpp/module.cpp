// Binds the kernels as sparseleaf._kernels; each file of cpp/ registers its own functions.
#include "common.hpp"

void bind_xctext(nb::module_& m);

NB_MODULE(_kernels, m) {
    m.doc() = "Compiled kernels of sparseleaf. Not public: use the estimators.";
    bind_xctext(m);
}
