// Naive Bayes over the most discriminative features of each label.
//
// select_discriminative: from the co-occurrence counts of labels and features, the features of every label
// whose count is most significantly above chance. DiscriminativeIndex: from a row's features to the labels
// they are evidence for, joined with the trees' candidates. Every label and every row is processed by one
// thread.
#include <cmath>

#include "common.hpp"
#include "topk.hpp"

namespace sparseleaf {

// counts: CSR (labels, features), each at least 1. For a label with m rows and a feature of rate q, c common
// rows have the significance c log(c / e) - (c - e) with e = m q, if c > e. Writes the features of largest
// significance (ties: lower feature), padded with -1.
void select_discriminative(In1<int64_t> indptr, In1<int32_t> features, In1<float> counts,
                           In1<double> label_rows, In1<double> feature_shares, Out2<int32_t> found,
                           Out2<float> common, int n_threads) {
    const auto n_labels = static_cast<int64_t>(indptr.size()) - 1;
    const auto n_features = static_cast<int64_t>(feature_shares.size());
    const auto most = static_cast<int64_t>(found.shape(1));
    require(features.size() == counts.size(), "features, counts: same size");
    require_indptr(indptr, counts.size());
    require(static_cast<int64_t>(label_rows.size()) == n_labels, "label_rows: must have one entry per label");
    require(static_cast<int64_t>(found.shape(0)) == n_labels && found.shape(0) == common.shape(0) &&
                found.shape(1) == common.shape(1),
            "found, common: (labels, most)");
    for (size_t e = 0; e < features.size(); ++e)
        require(features.data()[e] >= 0 && features.data()[e] < n_features, "features: no such feature");
    GilRelease release;
    constexpr int64_t kBlock = 64;
    struct Worth {
        double value;
        int32_t feature;
        float count;
    };
    parallel_tasks((n_labels + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int) {
        std::vector<Worth> list;
        for (int64_t label = block * kBlock; label < std::min(n_labels, (block + 1) * kBlock); ++label) {
            list.clear();
            for (int64_t e = indptr.data()[label]; e < indptr.data()[label + 1]; ++e) {
                const int32_t feature = features.data()[e];
                const double count = counts.data()[e];
                const double chance = label_rows.data()[label] * feature_shares.data()[feature];
                // above chance only by rounding: not evidence
                if (count > chance * (1.0 + 1e-9))
                    list.push_back({count * std::log(count / chance) - (count - chance), feature,
                                    static_cast<float>(count)});
            }
            const auto kept = std::min<int64_t>(most, static_cast<int64_t>(list.size()));
            std::partial_sort(list.begin(), list.begin() + kept, list.end(),
                              [](const Worth& a, const Worth& b) {
                                  return a.value != b.value ? a.value > b.value : a.feature < b.feature;
                              });
            for (int64_t j = 0; j < most; ++j) {
                found.data()[label * most + j] = j < kept ? list[static_cast<size_t>(j)].feature : -1;
                common.data()[label * most + j] = j < kept ? list[static_cast<size_t>(j)].count : 0.0f;
            }
        }
    });
}

class DiscriminativeIndex {
  public:
    // postings: CSR (discriminative features, labels) of positive weights; features: their indices,
    // increasing; bias: evidence for a label without features.
    DiscriminativeIndex(In1<int32_t> features, In1<int64_t> indptr, In1<int32_t> labels, In1<float> weights,
                        In1<float> bias, int64_t n_features)
        : features_(features),
          indptr_(indptr),
          labels_(labels),
          weights_(weights),
          bias_(bias),
          n_features_(n_features) {
        require(labels.size() == weights.size(), "labels, weights: same size");
        require_indptr(indptr, weights.size());
        require(features.size() + 1 == indptr.size(), "features: a list of labels for each");
        for (size_t i = 0; i < features.size(); ++i)
            require(features.data()[i] >= 0 && features.data()[i] < n_features &&
                        (i == 0 || features.data()[i - 1] < features.data()[i]),
                    "features: must rise, and exist");
        GilRelease release;
        for (size_t e = 0; e < labels.size(); ++e) {
            require(labels.data()[e] >= 0 && labels.data()[e] < static_cast<int64_t>(bias.size()),
                    "postings: no such label");
            require(weights.data()[e] > 0.0f && std::isfinite(weights.data()[e]),
                    "postings must be positive and finite");
        }
        for (size_t i = 0; i < bias.size(); ++i)
            require(std::isfinite(bias.data()[i]), "bias must be finite");
    }

    // Trees' labels and scores: (rows, places), -1 is none. Answers the union of these and of the `most`
    // labels that a row's features speak for best, as lists that rise by label: (starts, labels, score of the
    // trees by the row's best, bias and weights added up).
    nb::tuple join(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In2<int32_t> labels,
                   In2<float> scores, int64_t most, int n_threads) const {
        const auto n = static_cast<int64_t>(indptr.size()) - 1;
        const auto n_labels = static_cast<int64_t>(bias_.size());
        const auto places = static_cast<int64_t>(labels.shape(1));
        require(indices.size() == data.size(), "rows: indices, data: same size");
        require_indptr(indptr, data.size());
        require(static_cast<int64_t>(labels.shape(0)) == n && labels.shape(0) == scores.shape(0) &&
                    labels.shape(1) == scores.shape(1),
                "labels, scores: (rows, places)");
        require(most >= 0 && n_threads >= 1, "most: not negative; n_threads: at least 1");
        for (size_t e = 0; e < indices.size(); ++e)
            require(indices.data()[e] >= 0 && indices.data()[e] < n_features_,
                    "indices: a feature that the model does not have");
        for (int64_t i = 0; i < n * places; ++i)
            require(labels.data()[i] >= -1 && labels.data()[i] < n_labels, "labels: no such label");
        std::unique_ptr<int64_t[]> starts;
        std::unique_ptr<int32_t[]> joined;
        std::unique_ptr<float[]> relative, evidence;
        {
            GilRelease release;
            starts = std::make_unique<int64_t[]>(static_cast<size_t>(n) + 1);
            std::vector<std::vector<Candidate>> lists(static_cast<size_t>(n));
            std::vector<ThreadState> states(static_cast<size_t>(n_threads));
            constexpr int64_t kBlock = 64;
            const int64_t n_blocks = (n + kBlock - 1) / kBlock;
            parallel_tasks(n_blocks, n_threads, [&](int64_t block, int thread) {
                auto& state = states[static_cast<size_t>(thread)];
                if (state.sums.empty()) state.sums.assign(static_cast<size_t>(n_labels), 0.0f);
                for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
                    const auto begin = indptr.data()[row], end = indptr.data()[row + 1];
                    collect(indices.data() + begin, data.data() + begin, end - begin,
                            labels.data() + row * places, scores.data() + row * places, places, most, state,
                            lists[static_cast<size_t>(row)]);
                }
            });
            for (int64_t row = 0; row < n; ++row)
                starts[row + 1] = starts[row] + static_cast<int64_t>(lists[static_cast<size_t>(row)].size());
            const auto total = static_cast<size_t>(starts[n]);
            joined.reset(new int32_t[total]);
            relative.reset(new float[total]);
            evidence.reset(new float[total]);
            parallel_tasks(n_blocks, n_threads, [&](int64_t block, int) {
                for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
                    int64_t at = starts[row];
                    for (const auto& c : lists[static_cast<size_t>(row)]) {
                        joined[at] = c.label;
                        relative[at] = c.relative;
                        evidence[at++] = c.evidence;
                    }
                }
            });
        }
        const auto total = static_cast<size_t>(starts[n]);
        return nb::make_tuple(to_numpy(std::move(starts), static_cast<size_t>(n) + 1),
                              to_numpy(std::move(joined), total), to_numpy(std::move(relative), total),
                              to_numpy(std::move(evidence), total));
    }

  private:
    struct Candidate {
        int32_t label;
        float relative, evidence;
    };

    // Buffers of a thread: sums of all labels, 0 between rows, and the labels with a sum.
    struct ThreadState {
        std::vector<float> sums;
        std::vector<int32_t> touched;
        std::vector<Scored> best;
    };

    void collect(const int32_t* features, const float* values, int64_t n_values, const int32_t* labels,
                 const float* scores, int64_t places, int64_t most, ThreadState& state,
                 std::vector<Candidate>& list) const {
        state.touched.clear();
        for (int64_t e = 0; e < n_values; ++e) {
            if (values[e] == 0.0f) continue;
            const int32_t *first = features_.data(), *last = first + features_.size();
            const int32_t* at = std::lower_bound(first, last, features[e]);
            if (at == last || *at != features[e]) continue;
            for (int64_t p = indptr_.data()[at - first]; p < indptr_.data()[at - first + 1]; ++p) {
                float& sum = state.sums[static_cast<size_t>(labels_.data()[p])];
                if (sum == 0.0f) state.touched.push_back(labels_.data()[p]);
                sum += weights_.data()[p];
            }
        }
        state.best.clear();
        for (const int32_t label : state.touched) state.best.push_back({evidence(label, state), label});
        if (static_cast<int64_t>(state.best.size()) > most) {
            std::nth_element(state.best.begin(), state.best.begin() + most, state.best.end(), ranks_before);
            state.best.resize(static_cast<size_t>(most));
        }
        float highest = 0.0f;
        for (int64_t j = 0; j < places; ++j)
            if (labels[j] >= 0) highest = std::max(highest, scores[j]);
        list.clear();
        for (int64_t j = 0; j < places; ++j)
            if (labels[j] >= 0)
                list.push_back({labels[j], highest > 0.0f ? std::max(0.0f, scores[j] / highest) : 0.0f,
                                evidence(labels[j], state)});
        for (const auto& b : state.best) list.push_back({b.label, 0.0f, b.score});
        // the trees' entry comes first and is kept
        std::stable_sort(list.begin(), list.end(),
                         [](const Candidate& a, const Candidate& b) { return a.label < b.label; });
        list.erase(std::unique(list.begin(), list.end(),
                               [](const Candidate& a, const Candidate& b) { return a.label == b.label; }),
                   list.end());
        for (const int32_t label : state.touched) state.sums[static_cast<size_t>(label)] = 0.0f;
    }

    float evidence(int32_t label, const ThreadState& state) const {
        return bias_.data()[label] + state.sums[static_cast<size_t>(label)];
    }

    In1<int32_t> features_;
    In1<int64_t> indptr_;
    In1<int32_t> labels_;
    In1<float> weights_;
    In1<float> bias_;
    int64_t n_features_;
};

}  // namespace sparseleaf

void bind_discriminative(nb::module_& m) {
    using namespace sparseleaf;
    m.def("select_discriminative", &select_discriminative, nb::arg("indptr"), nb::arg("features"),
          nb::arg("counts"), nb::arg("label_rows"), nb::arg("feature_shares"), nb::arg("found").noconvert(),
          nb::arg("common").noconvert(), nb::arg("n_threads"));
    nb::class_<DiscriminativeIndex>(m, "DiscriminativeIndex")
        .def(nb::init<In1<int32_t>, In1<int64_t>, In1<int32_t>, In1<float>, In1<float>, int64_t>(),
             nb::arg("features"), nb::arg("indptr"), nb::arg("labels"), nb::arg("weights"), nb::arg("bias"),
             nb::arg("n_features"))
        .def("join", &DiscriminativeIndex::join, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("labels"), nb::arg("scores"), nb::arg("most"), nb::arg("n_threads"));
}
