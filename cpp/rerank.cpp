// Re-ranking: candidates of a row scored anew by how close the row is to the centroid of each label.
//
// In: sparse rows, their candidates with the trees' scores, sparse centroids. Out: new scores in place. A row
// is scattered once into a work array over all features; each candidate then costs the size of its centroid.
#include <cmath>

#include "common.hpp"

namespace sparseleaf {
namespace {

enum class Mix : int { kCentroid = 0, kCosine = 1, kLog = 2 };

}  // namespace

class CentroidReranker {
  public:
    // centroids: CSR (labels, features); squared_norms: of the whole mean vectors, before any pruning.
    CentroidReranker(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<float> squared_norms,
                     int64_t n_features)
        : indptr_(indptr),
          indices_(indices),
          data_(data),
          squared_norms_(squared_norms),
          n_features_(n_features) {
        require(indices.size() == data.size(), "centroids: indices, data: same size");
        require_indptr(indptr, data.size());
        require(squared_norms.size() + 1 == indptr.size(), "centroids: one norm a label");
        nb::gil_scoped_release release;
        for (size_t e = 0; e < indices.size(); ++e) {
            require(indices.data()[e] >= 0 && indices.data()[e] < n_features, "centroids: no such feature");
            require(std::isfinite(data.data()[e]), "centroids must be finite");
        }
        for (size_t k = 0; k < squared_norms.size(); ++k)
            require(std::isfinite(squared_norms.data()[k]) && squared_norms.data()[k] >= 0.0f,
                    "centroids: norms must be finite and not negative");
    }

    // Candidates of row i are labels[starts[i]:starts[i + 1]]; -1 is none.
    void rescore(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<int64_t> starts,
                 In1<int32_t> labels, Out1<float> scores, int mix, float weight, float scale,
                 int n_threads) const {
        const auto n = static_cast<int64_t>(indptr.size()) - 1;
        const auto n_labels = static_cast<int32_t>(squared_norms_.size());
        require(indices.size() == data.size() && labels.size() == scores.size(), "arrays: same size");
        require_indptr(indptr, data.size());
        require_indptr(starts, labels.size());
        require(starts.size() == indptr.size(), "starts: one more than rows");
        require(mix >= 0 && mix <= 2, "mix: 0 (centroid), 1 (cosine) or 2 (log)");
        for (size_t e = 0; e < labels.size(); ++e)
            require(labels.data()[e] >= -1 && labels.data()[e] < n_labels, "labels: no such label");
        for (size_t e = 0; e < indices.size(); ++e)
            require(indices.data()[e] >= 0 && indices.data()[e] < n_features_,
                    "indices: a feature that the model does not have");
        nb::gil_scoped_release release;
        constexpr int64_t kBlock = 256;
        std::vector<std::vector<float>> tables(static_cast<size_t>(n_threads));
        parallel_tasks((n + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int thread) {
            auto& x = tables[thread];
            if (x.empty()) x.assign(static_cast<size_t>(n_features_), 0.0f);
            for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
                float norm = 0.0f;
                for (int64_t e = indptr.data()[row]; e < indptr.data()[row + 1]; ++e) {
                    x[indices.data()[e]] = data.data()[e];
                    norm += data.data()[e] * data.data()[e];
                }
                for (int64_t c = starts.data()[row]; c < starts.data()[row + 1]; ++c)
                    if (labels.data()[c] >= 0)
                        scores.data()[c] = mixed(scores.data()[c], labels.data()[c], x.data(), norm,
                                                 static_cast<Mix>(mix), weight, scale);
                for (int64_t e = indptr.data()[row]; e < indptr.data()[row + 1]; ++e)
                    x[indices.data()[e]] = 0.0f;
            }
        });
    }

  private:
    float mixed(float score, int32_t label, const float* x, float norm, Mix mix, float weight,
                float scale) const {
        float product = 0.0f;
        for (int64_t e = indptr_.data()[label]; e < indptr_.data()[label + 1]; ++e)
            product += data_.data()[e] * x[indices_.data()[e]];
        const float own = squared_norms_.data()[label];
        if (mix == Mix::kCentroid) {
            const float distance = std::max(0.0f, norm + own - 2.0f * product);
            return finite(weight * score + (1.0f - weight) / (1.0f + std::exp(scale * distance / 2.0f)));
        }
        const float lengths = std::sqrt(norm) * std::sqrt(own);
        const float cosine = lengths > 0.0f ? std::clamp(product / lengths, -1.0f, 1.0f) : 0.0f;
        if (mix == Mix::kCosine) return finite(weight * score + (1.0f - weight) * cosine);
        // the mix of logarithms, as a product: it stays positive, and 0 stays the score of all others
        return finite(std::pow(std::max(score, 1e-6f), weight) *
                      std::exp((1.0f - weight) * scale * (cosine - 1.0f)));
    }

    // what overflows is no closeness
    static float finite(float value) { return std::isfinite(value) ? value : 0.0f; }

    In1<int64_t> indptr_;
    In1<int32_t> indices_;
    In1<float> data_, squared_norms_;
    int64_t n_features_;
};

}  // namespace sparseleaf

void bind_rerank(nb::module_& m) {
    using namespace sparseleaf;
    nb::class_<CentroidReranker>(m, "CentroidReranker")
        .def(nb::init<In1<int64_t>, In1<int32_t>, In1<float>, In1<float>, int64_t>(), nb::arg("indptr"),
             nb::arg("indices"), nb::arg("data"), nb::arg("squared_norms"), nb::arg("n_features"))
        .def("rescore", &CentroidReranker::rescore, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("starts"), nb::arg("labels"), nb::arg("scores").noconvert(), nb::arg("mix"),
             nb::arg("weight"), nb::arg("scale"), nb::arg("n_threads"));
}
