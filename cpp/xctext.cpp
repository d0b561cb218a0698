// XC text to arrays.
#include "common.hpp"

void bind_xctext(nb::module_& m) { m.attr("todo") = 1; }
