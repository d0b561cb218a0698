// Re-ranking by centroids: candidates are rescored by the similarity of the row to the label's centroid.
//
// A row is scattered once into an array over all features; each candidate then costs the size of its
// centroid.
#include "rerank.hpp"

void bind_rerank(nb::module_& m) {
    using namespace sparseleaf;
    nb::class_<IndexLists>(m, "IndexLists")
        .def(nb::init<In1<int64_t>, AnyIn1, In2<uint32_t>, int64_t>(), nb::arg("indptr"), nb::arg("steps"),
             nb::arg("leaps"), nb::arg("width"));
    nb::class_<PackedVectors>(m, "PackedVectors")
        .def(nb::init<In1<int64_t>, AnyIn1, In2<uint32_t>, AnyIn1, In1<float>, int64_t>(), nb::arg("indptr"),
             nb::arg("steps"), nb::arg("leaps"), nb::arg("values"), nb::arg("scale"), nb::arg("width"));
    nb::class_<CentroidReranker>(m, "CentroidReranker")
        .def(nb::init<const PackedVectors&, In1<float>>(), nb::arg("centroids"), nb::arg("squared_norms"),
             nb::keep_alive<1, 2>())
        .def("rescore", &CentroidReranker::rescore, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("starts"), nb::arg("labels"), nb::arg("scores").noconvert(), nb::arg("mix"),
             nb::arg("weight"), nb::arg("scale"), nb::arg("n_threads"))
        .def("topk", &CentroidReranker::topk, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("feature_weights"), nb::arg("labels"), nb::arg("scores"), nb::arg("mix"),
             nb::arg("weight"), nb::arg("scale"), nb::arg("best").noconvert(), nb::arg("ranked").noconvert(),
             nb::arg("n_threads"));
}
