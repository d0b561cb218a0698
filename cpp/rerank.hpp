// Similarity of rows to label centroids.
#pragma once

#include <cmath>

#include "topk.hpp"
#include "vectors.hpp"

namespace sparseleaf {

enum class Mix : int { kCentroid = 0, kCosine = 1, kLog = 2 };

// Validates candidates and the output of the best.
inline void require_candidates(const In2<int32_t>& labels, const In2<float>& scores,
                               const Out2<int32_t>& best, const Out2<float>& ranked, int64_t n_rows) {
    require(static_cast<int64_t>(labels.shape(0)) == n_rows && scores.shape(0) == labels.shape(0) &&
                scores.shape(1) == labels.shape(1),
            "labels, scores: (rows, places)");
    require(best.shape(0) == labels.shape(0) && ranked.shape(0) == labels.shape(0) &&
                best.shape(1) == ranked.shape(1),
            "best, ranked: (rows, k)");
}

class CentroidReranker {
  public:
    // centroids: (labels, features); squared_norms: of the mean vectors before truncation.
    CentroidReranker(const PackedVectors& centroids, In1<float> squared_norms)
        : centroids_(centroids), squared_norms_(squared_norms), n_features_(centroids.width()) {
        require(static_cast<int64_t>(squared_norms.size()) == centroids.n_lines(),
                "centroids: one norm a label");
        for (size_t k = 0; k < squared_norms.size(); ++k)
            require(std::isfinite(squared_norms.data()[k]) && squared_norms.data()[k] >= 0.0f,
                    "centroids: norms must be finite and not negative");
    }

    // The candidates of row i are labels[starts[i]:starts[i + 1]], -1 for none.
    void rescore(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<int64_t> starts,
                 In1<int32_t> labels, Out1<float> scores, int mix, float weight, float scale,
                 int n_threads) const {
        const auto n = static_cast<int64_t>(indptr.size()) - 1;
        require_rows(indptr, indices, data);
        require(labels.size() == scores.size(), "labels, scores: same size");
        require_indptr(starts, labels.size());
        require(starts.size() == indptr.size(), "starts: one more than rows");
        require(mix >= 0 && mix <= 2, "mix: 0 (centroid), 1 (cosine) or 2 (log)");
        for (size_t e = 0; e < labels.size(); ++e)
            require(labels.data()[e] >= -1 && labels.data()[e] < n_labels(), "labels: no such label");
        GilRelease release;
        parallel_tasks((n + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int) {
            SpreadRow x(n_features_);
            for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
                const float norm = spread(indptr, indices, data, nullptr, row, x);
                for (int64_t c = starts.data()[row]; c < starts.data()[row + 1]; ++c)
                    if (labels.data()[c] >= 0)
                        scores.data()[c] = mixed(scores.data()[c], labels.data()[c], x, norm,
                                                 static_cast<Mix>(mix), weight, scale);
                x.clear();
            }
        });
    }

    // The k best of every row's candidates, (rows, places) with -1 for none, by their new scores; features
    // are first multiplied by their weights, if any.
    void topk(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<float> feature_weights,
              In2<int32_t> labels, In2<float> scores, int mix, float weight, float scale, Out2<int32_t> best,
              Out2<float> ranked, int n_threads) const {
        const auto n = static_cast<int64_t>(indptr.size()) - 1;
        const auto places = static_cast<int64_t>(labels.shape(1)), k = static_cast<int64_t>(best.shape(1));
        require_rows(indptr, indices, data);
        require_candidates(labels, scores, best, ranked, n);
        require(feature_weights.size() == 0 || static_cast<int64_t>(feature_weights.size()) == n_features_,
                "feature_weights: must be empty or have one entry per feature");
        require(mix >= 0 && mix <= 2, "mix: 0 (centroid), 1 (cosine) or 2 (log)");
        for (size_t i = 0; i < labels.size(); ++i)
            require(labels.data()[i] >= -1 && labels.data()[i] < n_labels(), "labels: no such label");
        const float* weights = feature_weights.size() ? feature_weights.data() : nullptr;
        GilRelease release;
        parallel_tasks((n + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int) {
            SpreadRow x(n_features_);
            std::vector<Scored> list;
            for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
                const float norm = spread(indptr, indices, data, weights, row, x);
                list.clear();
                for (int64_t c = row * places; c < (row + 1) * places; ++c) {
                    const int32_t label = labels.data()[c];
                    if (label < 0) continue;
                    if (c + 1 < (row + 1) * places && labels.data()[c + 1] >= 0)
                        centroids_.fetch(labels.data()[c + 1]);
                    list.push_back(
                        {mixed(scores.data()[c], label, x, norm, static_cast<Mix>(mix), weight, scale),
                         label});
                }
                x.clear();
                write_topk(list, k, best.data() + row * k, ranked.data() + row * k);
            }
        });
    }

    int32_t n_labels() const { return static_cast<int32_t>(squared_norms_.size()); }
    int64_t n_features() const { return n_features_; }
    void fetch(int32_t label) const { centroids_.fetch(label); }

    // The new score of a candidate; `norm` is the squared norm of the row.
    float cosine(int32_t label, const SpreadRow& x, float norm) const {
        const float lengths = std::sqrt(norm) * std::sqrt(squared_norms_.data()[label]);
        return lengths > 0.0f ? std::clamp(centroids_.product(label, x) / lengths, -1.0f, 1.0f) : 0.0f;
    }

  private:
    static constexpr int64_t kBlock = 64;

    void require_rows(const In1<int64_t>& indptr, const In1<int32_t>& indices, const In1<float>& data) const {
        require(indices.size() == data.size(), "rows: indices, data: same size");
        require_indptr(indptr, data.size());
        for (size_t e = 0; e < indices.size(); ++e)
            require(indices.data()[e] >= 0 && indices.data()[e] < n_features_,
                    "indices: a feature that the model does not have");
    }

    // Returns the squared norm of the row.
    static float spread(const In1<int64_t>& indptr, const In1<int32_t>& indices, const In1<float>& data,
                        const float* weights, int64_t row, SpreadRow& x) {
        float norm = 0.0f;
        for (int64_t e = indptr.data()[row]; e < indptr.data()[row + 1]; ++e) {
            const int32_t feature = indices.data()[e];
            const float value = weights ? data.data()[e] * weights[feature] : data.data()[e];
            x.set(feature, value);
            norm += value * value;
        }
        return norm;
    }

    float mixed(float score, int32_t label, const SpreadRow& x, float norm, Mix mix, float weight,
                float scale) const {
        if (mix == Mix::kCentroid) {
            const float distance =
                std::max(0.0f, norm + squared_norms_.data()[label] - 2.0f * centroids_.product(label, x));
            return finite(weight * score + (1.0f - weight) / (1.0f + std::exp(scale * distance / 2.0f)));
        }
        const float closeness = cosine(label, x, norm);
        if (mix == Mix::kCosine) return finite(weight * score + (1.0f - weight) * closeness);
        // the mix of logarithms as a product: positive, so that 0 remains the score of all other labels
        return finite(std::pow(std::max(score, 1e-6f), weight) *
                      std::exp((1.0f - weight) * scale * (closeness - 1.0f)));
    }

    // overflow means no similarity
    static float finite(float value) { return std::isfinite(value) ? value : 0.0f; }

    const PackedVectors& centroids_;
    In1<float> squared_norms_;
    int64_t n_features_;
};

}  // namespace sparseleaf
