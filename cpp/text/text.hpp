// The functions of the text kernels that are bound.
#pragma once

#include "text/document.hpp"
#include "text/index.hpp"

namespace sparseleaf {

nb::tuple count_terms(const TextAnalyzer& analyzer, const TermIndex& index, nb::list fields, int n_threads);
nb::tuple hash_terms(const TextAnalyzer& analyzer, int32_t n_columns, bool alternate_sign, nb::list fields,
                     int n_threads);
void weigh_terms(In1<int64_t> indptr, In1<int32_t> columns, Out1<float> values, In1<double> idf,
                 bool sublinear, int norm, double weight, int n_threads);
nb::tuple join_columns(nb::list parts, In1<int64_t> offsets, int n_threads);

}  // namespace sparseleaf
