// Binds the kernels as sparseleaf._kernels; each file of cpp/ registers its own functions.
#include "common.hpp"

void bind_binning(nb::module_& m);
void bind_candidates(nb::module_& m);
void bind_counts(nb::module_& m);
void bind_dense(nb::module_& m);
void bind_forest(nb::module_& m);
void bind_gil(nb::module_& m);
void bind_hits(nb::module_& m);
void bind_ldsm(nb::module_& m);
void bind_leaves(nb::module_& m);
void bind_examples(nb::module_& m);
void bind_largest(nb::module_& m);
void bind_linear(nb::module_& m);
void bind_names(nb::module_& m);
void bind_objectives(nb::module_& m);
void bind_plain(nb::module_& m);
void bind_postings(nb::module_& m);
void bind_predict(nb::module_& m);
void bind_probabilities(nb::module_& m);
void bind_ranking(nb::module_& m);
void bind_rerank(nb::module_& m);
void bind_route(nb::module_& m);
void bind_router(nb::module_& m);
void bind_scores(nb::module_& m);
void bind_shap(nb::module_& m);
void bind_shap_pairs(nb::module_& m);
void bind_sketch(nb::module_& m);
void bind_softmax(nb::module_& m);
void bind_sparse(nb::module_& m);
void bind_discriminative(nb::module_& m);
void bind_start(nb::module_& m);
void bind_targets(nb::module_& m);
void bind_text(nb::module_& m);
void bind_tree(nb::module_& m);
void bind_xctext(nb::module_& m);

NB_MODULE(_kernels, m) {
    // objects referenced by caches or tracebacks at exit are not leaks
    nb::set_leak_warnings(false);
    m.doc() = "Compiled kernels of sparseleaf. Not public: use the estimators.";
    bind_binning(m);
    bind_candidates(m);
    bind_counts(m);
    bind_dense(m);
    bind_forest(m);
    bind_gil(m);
    bind_hits(m);
    bind_ldsm(m);
    bind_leaves(m);
    bind_examples(m);
    bind_largest(m);
    bind_linear(m);
    bind_names(m);
    bind_objectives(m);
    bind_plain(m);
    bind_postings(m);
    bind_predict(m);
    bind_probabilities(m);
    bind_ranking(m);
    bind_rerank(m);
    bind_route(m);
    bind_router(m);
    bind_scores(m);
    bind_shap(m);
    bind_shap_pairs(m);
    bind_sketch(m);
    bind_softmax(m);
    bind_sparse(m);
    bind_discriminative(m);
    bind_start(m);
    bind_targets(m);
    bind_text(m);
    bind_tree(m);
    bind_xctext(m);
}
