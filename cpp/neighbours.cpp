// Votes of the nearest training rows: their labels, weighted by closeness, mixed with the trees' scores.
//
// In: sparse rows and the trees' scores of them. Out: scores of the mix.
//
// Training rows are kept by row and, in lists, by feature. A row first adds up products over the lists of its
// features, those of largest value first, as many as fit into a budget: long lists belong to features that
// most rows have, and these say little. The best by that sum are then compared in full, and the nearest of
// them vote. Where all lists fit, the answer is exact.
//
// Reads the model, never writes it: any number of threads may share one.
#include <cmath>

#include "router.hpp"
#include "sums.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kBudget = 32768;  // list entries that a row may add up
constexpr int64_t kCompared = 4;    // rows compared in full, for every one that votes
constexpr int64_t kBlock = 64;

struct Near {
    float closeness;
    int32_t row;
};

inline bool nearer(const Near& a, const Near& b) {
    return a.closeness != b.closeness ? a.closeness > b.closeness : a.row < b.row;
}

}  // namespace

class NeighbourIndex {
  public:
    // Training rows as CSR with values of 8 bits and a scale a row, as routers see them; their labels as CSR.
    NeighbourIndex(In1<int64_t> indptr, In1<int32_t> indices, In1<int8_t> values, In1<float> scale,
                   In1<int64_t> label_indptr, In1<int32_t> labels, In1<float> feature_weights, bool unit_rows,
                   int64_t n_features, int64_t n_labels)
        : indptr_(indptr),
          indices_(indices),
          values_(values),
          scale_(scale),
          label_indptr_(label_indptr),
          labels_(labels),
          feature_weights_(feature_weights),
          unit_rows_(unit_rows),
          n_features_(n_features),
          n_labels_(n_labels) {
        require(indices.size() == values.size(), "indices, values: same size");
        require_indptr(indptr, indices.size());
        require_indptr(label_indptr, labels.size());
        require(indptr.size() == label_indptr.size() && indptr.size() == scale.size() + 1,
                "indptr, scale, label_indptr: same rows");
        require(indptr.size() <= 0x7fffffff && n_features >= 0 && n_labels >= 0, "indptr: too many rows");
        require(feature_weights.size() == 0 || static_cast<int64_t>(feature_weights.size()) == n_features,
                "feature_weights: one a feature, or none");
        nb::gil_scoped_release release;
        for (size_t e = 0; e < indices.size(); ++e)
            require(indices.data()[e] >= 0 && indices.data()[e] < n_features, "indices: no such feature");
        for (size_t e = 0; e < labels.size(); ++e)
            require(labels.data()[e] >= 0 && labels.data()[e] < n_labels, "labels: no such label");
        for (size_t i = 0; i < scale.size(); ++i)
            require(std::isfinite(scale.data()[i]), "scale: must be finite");
        make_lists();
    }

    // The k best labels of every row; the trees' scores are a CSR matrix.
    void topk(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<int64_t> base_indptr,
              In1<int32_t> base_labels, In1<float> base_scores, int64_t n_neighbours, float power,
              float weight, Out2<int32_t> labels, Out2<float> scores, int n_threads) const {
        const auto k = static_cast<int64_t>(labels.shape(1));
        require(labels.shape(0) + 1 == indptr.size() && labels.shape(0) == scores.shape(0) &&
                    labels.shape(1) == scores.shape(1),
                "labels, scores: (rows, k)");
        const Query query = checked(indptr, indices, data, base_indptr, base_labels, base_scores,
                                    n_neighbours, power, weight);
        nb::gil_scoped_release release;
        each_row(query, n_threads, [&](int64_t row, std::vector<Scored>& found) {
            write_topk(found, k, labels.data() + row * k, scores.data() + row * k);
        });
    }

    // CSR of all scores: (indptr int64, labels int32 sorted in every row, scores float32).
    nb::tuple scores(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<int64_t> base_indptr,
                     In1<int32_t> base_labels, In1<float> base_scores, int64_t n_neighbours, float power,
                     float weight, int n_threads) const {
        const Query query = checked(indptr, indices, data, base_indptr, base_labels, base_scores,
                                    n_neighbours, power, weight);
        const auto n = static_cast<size_t>(query.n);
        std::unique_ptr<int64_t[]> out_indptr(new int64_t[n + 1]);
        std::unique_ptr<int32_t[]> out_labels;
        std::unique_ptr<float[]> out_scores;
        {
            nb::gil_scoped_release release;
            std::vector<std::vector<Scored>> all(n);
            each_row(query, n_threads, [&](int64_t row, std::vector<Scored>& found) {
                all[row] = found;
                std::sort(all[row].begin(), all[row].end(),
                          [](const Scored& a, const Scored& b) { return a.label < b.label; });
            });
            out_indptr[0] = 0;
            for (size_t i = 0; i < n; ++i)
                out_indptr[i + 1] = out_indptr[i] + static_cast<int64_t>(all[i].size());
            out_labels.reset(new int32_t[static_cast<size_t>(out_indptr[n])]);
            out_scores.reset(new float[static_cast<size_t>(out_indptr[n])]);
            for (size_t i = 0; i < n; ++i)
                for (size_t j = 0; j < all[i].size(); ++j) {
                    out_labels[out_indptr[i] + static_cast<int64_t>(j)] = all[i][j].label;
                    out_scores[out_indptr[i] + static_cast<int64_t>(j)] = all[i][j].score;
                }
        }
        const auto size = static_cast<size_t>(out_indptr[n]);
        return nb::make_tuple(to_numpy(std::move(out_indptr), n + 1), to_numpy(std::move(out_labels), size),
                              to_numpy(std::move(out_scores), size));
    }

  private:
    struct Query {
        const int64_t* indptr;
        const int32_t* indices;
        const float* data;
        const int64_t* base_indptr;
        const int32_t* base_labels;
        const float* base_scores;
        int64_t n, n_neighbours;
        float power, weight;
    };

    // One thread's memory.
    struct Work {
        Work(int64_t n_features, int64_t n_rows, int64_t n_labels)
            : x(static_cast<size_t>(n_features), 0.0f),
              sums(static_cast<size_t>(n_rows), 0.0f),
              votes(n_labels) {}
        std::vector<float> x, sums;
        std::vector<int32_t> touched;
        std::vector<int64_t> by_size;
        std::vector<Near> near;
        std::vector<float> ones;
        Sums votes;
        std::vector<Scored> found;
    };

    // The rows that have a feature, in lists.
    void make_lists() {
        list_indptr_.assign(static_cast<size_t>(n_features_) + 1, 0);
        for (size_t e = 0; e < indices_.size(); ++e) ++list_indptr_[indices_.data()[e] + 1];
        for (size_t f = 1; f < list_indptr_.size(); ++f) list_indptr_[f] += list_indptr_[f - 1];
        list_rows_.resize(indices_.size());
        list_values_.resize(indices_.size());
        std::vector<int64_t> at(list_indptr_.begin(), list_indptr_.end() - 1);
        for (size_t row = 0; row + 1 < indptr_.size(); ++row)
            for (int64_t e = indptr_.data()[row]; e < indptr_.data()[row + 1]; ++e) {
                const int64_t place = at[indices_.data()[e]]++;
                list_rows_[place] = static_cast<int32_t>(row);
                list_values_[place] = values_.data()[e];
            }
    }

    Query checked(const In1<int64_t>& indptr, const In1<int32_t>& indices, const In1<float>& data,
                  const In1<int64_t>& base_indptr, const In1<int32_t>& base_labels,
                  const In1<float>& base_scores, int64_t n_neighbours, float power, float weight) const {
        require(indices.size() == data.size() && base_labels.size() == base_scores.size(),
                "arrays: same size");
        require_indptr(indptr, data.size());
        require_indptr(base_indptr, base_labels.size());
        require(indptr.size() == base_indptr.size(), "indptr, base_indptr: same rows");
        require(n_neighbours >= 1 && power >= 0.0f && weight >= 0.0f && weight <= 1.0f,
                "n_neighbours: at least 1; power: at least 0; weight: 0 to 1");
        for (size_t e = 0; e < indices.size(); ++e)
            require(indices.data()[e] >= 0 && indices.data()[e] < n_features_,
                    "indices: a feature that the model does not have");
        for (size_t e = 0; e < base_labels.size(); ++e)
            require(base_labels.data()[e] >= 0 && base_labels.data()[e] < n_labels_,
                    "base_labels: no such label");
        return {indptr.data(),
                indices.data(),
                data.data(),
                base_indptr.data(),
                base_labels.data(),
                base_scores.data(),
                static_cast<int64_t>(indptr.size()) - 1,
                n_neighbours,
                power,
                weight};
    }

    template <typename F>
    void each_row(const Query& query, int n_threads, F&& use) const {
        std::vector<std::unique_ptr<Work>> works(static_cast<size_t>(n_threads));
        parallel_tasks((query.n + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int thread) {
            auto& work = works[thread];
            if (!work)
                work = std::make_unique<Work>(n_features_, static_cast<int64_t>(scale_.size()), n_labels_);
            for (int64_t row = block * kBlock; row < std::min(query.n, (block + 1) * kBlock); ++row) {
                const int64_t first = query.base_indptr[row];
                work->votes.add(query.base_labels + first, query.base_scores + first, query.weight,
                                query.base_indptr[row + 1] - first);
                vote(query, row, *work);
                work->votes.take(work->found);
                use(row, work->found);
            }
        });
    }

    void vote(const Query& query, int64_t row, Work& work) const {
        const RowView view{feature_weights_.size() ? feature_weights_.data() : nullptr, unit_rows_};
        const int64_t begin = query.indptr[row], end = query.indptr[row + 1];
        const float scale = view.row_scale(query.indices, query.data, begin, end);
        for (int64_t e = begin; e < end; ++e)
            work.x[query.indices[e]] = scale * view.weighted(query.indices[e], query.data[e]);
        find_candidates(query, begin, end, work);
        auto& near = work.near;
        keep_nearest(near, kCompared * query.n_neighbours);
        for (Near& one : near) {
            float sum = 0.0f;
            for (int64_t e = indptr_.data()[one.row]; e < indptr_.data()[one.row + 1]; ++e)
                sum += static_cast<float>(values_.data()[e]) * work.x[indices_.data()[e]];
            one.closeness = sum * scale_.data()[one.row];
        }
        keep_nearest(near, query.n_neighbours);
        // in order of closeness, so that sums do not depend on how rows were found
        std::sort(near.begin(), near.end(), nearer);
        float total = 0.0f;
        for (Near& one : near) {
            one.closeness = one.closeness > 0.0f ? std::pow(one.closeness, query.power) : 0.0f;
            total += one.closeness;
        }
        if (total > 0.0f && std::isfinite(total))
            for (const Near& one : near) {
                const int64_t first = label_indptr_.data()[one.row];
                const int64_t size = label_indptr_.data()[one.row + 1] - first;
                if (static_cast<int64_t>(work.ones.size()) < size)
                    work.ones.resize(static_cast<size_t>(size), 1.0f);
                work.votes.add(labels_.data() + first, work.ones.data(),
                               (1.0f - query.weight) * one.closeness / total, size);
            }
        for (int64_t e = begin; e < end; ++e) work.x[query.indices[e]] = 0.0f;
    }

    // Rows that share features with the one in work.x, with the sum of the products that were added up.
    void find_candidates(const Query& query, int64_t begin, int64_t end, Work& work) const {
        work.by_size.resize(static_cast<size_t>(end - begin));
        for (int64_t e = begin; e < end; ++e) work.by_size[e - begin] = e;
        const auto size_of = [&](int64_t e) { return std::abs(work.x[query.indices[e]]); };
        std::sort(work.by_size.begin(), work.by_size.end(), [&](int64_t a, int64_t b) {
            return size_of(a) != size_of(b) ? size_of(a) > size_of(b) : a < b;
        });
        int64_t left = kBudget;
        work.touched.clear();
        for (const int64_t e : work.by_size) {
            const int32_t feature = query.indices[e];
            const int64_t first = list_indptr_[feature], last = list_indptr_[feature + 1];
            // a list too long is left out, unless there is nothing else to go by
            if (last - first > left && !(e == work.by_size.back() && work.touched.empty())) continue;
            left -= last - first;
            const float x = work.x[feature];
            for (int64_t at = first; at < last; ++at) {
                float& sum = work.sums[list_rows_[at]];
                if (sum == 0.0f) work.touched.push_back(list_rows_[at]);
                sum += x * static_cast<float>(list_values_[at]);
            }
        }
        work.near.clear();
        for (const int32_t row : work.touched) {
            // a sum that came back to 0 on its way was noted twice
            if (work.sums[row] > 0.0f) work.near.push_back({work.sums[row] * scale_.data()[row], row});
            work.sums[row] = 0.0f;
        }
    }

    static void keep_nearest(std::vector<Near>& near, int64_t most) {
        if (static_cast<int64_t>(near.size()) <= most) return;
        std::nth_element(near.begin(), near.begin() + most, near.end(), nearer);
        near.resize(static_cast<size_t>(most));
    }

    In1<int64_t> indptr_;
    In1<int32_t> indices_;
    In1<int8_t> values_;
    In1<float> scale_;
    In1<int64_t> label_indptr_;
    In1<int32_t> labels_;
    In1<float> feature_weights_;
    bool unit_rows_;
    int64_t n_features_, n_labels_;
    std::vector<int64_t> list_indptr_;
    std::vector<int32_t> list_rows_;
    std::vector<int8_t> list_values_;
};

}  // namespace sparseleaf

void bind_neighbours(nb::module_& m) {
    using namespace sparseleaf;
    nb::class_<NeighbourIndex>(m, "NeighbourIndex")
        .def(nb::init<In1<int64_t>, In1<int32_t>, In1<int8_t>, In1<float>, In1<int64_t>, In1<int32_t>,
                      In1<float>, bool, int64_t, int64_t>(),
             nb::arg("indptr"), nb::arg("indices"), nb::arg("values"), nb::arg("scale"),
             nb::arg("label_indptr"), nb::arg("labels"), nb::arg("feature_weights"), nb::arg("unit_rows"),
             nb::arg("n_features"), nb::arg("n_labels"))
        .def("topk", &NeighbourIndex::topk, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("base_indptr"), nb::arg("base_labels"), nb::arg("base_scores"), nb::arg("n_neighbours"),
             nb::arg("power"), nb::arg("weight"), nb::arg("labels").noconvert(),
             nb::arg("scores").noconvert(), nb::arg("n_threads"))
        .def("scores", &NeighbourIndex::scores, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("base_indptr"), nb::arg("base_labels"), nb::arg("base_scores"), nb::arg("n_neighbours"),
             nb::arg("power"), nb::arg("weight"), nb::arg("n_threads"));
}
