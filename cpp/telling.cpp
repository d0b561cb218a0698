// Naive Bayes over the few features that tell a label best.
//
// select_telling: in, how many rows have both a label and a feature, as lists by label; out, for every label
// the features whose number of rows is furthest above chance, furthest first. TellingIndex: from a row's
// features to the labels that they speak for, joined with the labels that trees propose. Every label and
// every row belongs to one thread.
#include <cmath>

#include "common.hpp"
#include "topk.hpp"

namespace sparseleaf {

// counts: CSR (labels, features), each at least 1. Of a label with m rows and a feature that a share q of all
// rows has, c rows in common are worth c log(c / e) - (c - e), e = m q, where c is above e. Writes the
// features of largest worth, ties to the lower feature; -1 is none.
void select_telling(In1<int64_t> indptr, In1<int32_t> features, In1<float> counts, In1<double> label_rows,
                    In1<double> feature_shares, Out2<int32_t> found, Out2<float> common, int n_threads) {
    const auto n_labels = static_cast<int64_t>(indptr.size()) - 1;
    const auto n_features = static_cast<int64_t>(feature_shares.size());
    const auto most = static_cast<int64_t>(found.shape(1));
    require(features.size() == counts.size(), "features, counts: same size");
    require_indptr(indptr, counts.size());
    require(static_cast<int64_t>(label_rows.size()) == n_labels, "label_rows: one a label");
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
                // what is above chance by rounding alone tells nothing, and would weigh nothing
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

class TellingIndex {
  public:
    // postings: CSR (features that tell anything, labels) of weights above 0; features: which these are,
    // rising; bias: what is said of a label before any feature.
    TellingIndex(In1<int32_t> features, In1<int64_t> indptr, In1<int32_t> labels, In1<float> weights,
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
        std::unique_ptr<float[]> relative, told;
        {
            GilRelease release;
            starts = std::make_unique<int64_t[]>(static_cast<size_t>(n) + 1);
            std::vector<std::vector<Candidate>> lists(static_cast<size_t>(n));
            std::vector<Desk> desks(static_cast<size_t>(n_threads));
            constexpr int64_t kBlock = 64;
            const int64_t n_blocks = (n + kBlock - 1) / kBlock;
            parallel_tasks(n_blocks, n_threads, [&](int64_t block, int thread) {
                auto& desk = desks[static_cast<size_t>(thread)];
                if (desk.sums.empty()) desk.sums.assign(static_cast<size_t>(n_labels), 0.0f);
                for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
                    const auto begin = indptr.data()[row], end = indptr.data()[row + 1];
                    collect(indices.data() + begin, data.data() + begin, end - begin,
                            labels.data() + row * places, scores.data() + row * places, places, most, desk,
                            lists[static_cast<size_t>(row)]);
                }
            });
            for (int64_t row = 0; row < n; ++row)
                starts[row + 1] = starts[row] + static_cast<int64_t>(lists[static_cast<size_t>(row)].size());
            const auto total = static_cast<size_t>(starts[n]);
            joined.reset(new int32_t[total]);
            relative.reset(new float[total]);
            told.reset(new float[total]);
            parallel_tasks(n_blocks, n_threads, [&](int64_t block, int) {
                for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
                    int64_t at = starts[row];
                    for (const auto& c : lists[static_cast<size_t>(row)]) {
                        joined[at] = c.label;
                        relative[at] = c.relative;
                        told[at++] = c.told;
                    }
                }
            });
        }
        const auto total = static_cast<size_t>(starts[n]);
        return nb::make_tuple(to_numpy(std::move(starts), static_cast<size_t>(n) + 1),
                              to_numpy(std::move(joined), total), to_numpy(std::move(relative), total),
                              to_numpy(std::move(told), total));
    }

  private:
    struct Candidate {
        int32_t label;
        float relative, told;
    };

    // What a thread works with: the sums of all labels, 0 between rows, and the labels of the row that have
    // one.
    struct Desk {
        std::vector<float> sums;
        std::vector<int32_t> touched;
        std::vector<Scored> best;
    };

    void collect(const int32_t* features, const float* values, int64_t n_values, const int32_t* labels,
                 const float* scores, int64_t places, int64_t most, Desk& desk,
                 std::vector<Candidate>& list) const {
        desk.touched.clear();
        for (int64_t e = 0; e < n_values; ++e) {
            if (values[e] == 0.0f) continue;
            const int32_t *first = features_.data(), *last = first + features_.size();
            const int32_t* at = std::lower_bound(first, last, features[e]);
            if (at == last || *at != features[e]) continue;
            for (int64_t p = indptr_.data()[at - first]; p < indptr_.data()[at - first + 1]; ++p) {
                float& sum = desk.sums[static_cast<size_t>(labels_.data()[p])];
                if (sum == 0.0f) desk.touched.push_back(labels_.data()[p]);
                sum += weights_.data()[p];
            }
        }
        desk.best.clear();
        for (const int32_t label : desk.touched) desk.best.push_back({told(label, desk), label});
        if (static_cast<int64_t>(desk.best.size()) > most) {
            std::nth_element(desk.best.begin(), desk.best.begin() + most, desk.best.end(), ranks_before);
            desk.best.resize(static_cast<size_t>(most));
        }
        float highest = 0.0f;
        for (int64_t j = 0; j < places; ++j)
            if (labels[j] >= 0) highest = std::max(highest, scores[j]);
        list.clear();
        for (int64_t j = 0; j < places; ++j)
            if (labels[j] >= 0)
                list.push_back({labels[j], highest > 0.0f ? std::max(0.0f, scores[j] / highest) : 0.0f,
                                told(labels[j], desk)});
        for (const auto& b : desk.best) list.push_back({b.label, 0.0f, b.score});
        // the trees' entry comes first and stays
        std::stable_sort(list.begin(), list.end(),
                         [](const Candidate& a, const Candidate& b) { return a.label < b.label; });
        list.erase(std::unique(list.begin(), list.end(),
                               [](const Candidate& a, const Candidate& b) { return a.label == b.label; }),
                   list.end());
        for (const int32_t label : desk.touched) desk.sums[static_cast<size_t>(label)] = 0.0f;
    }

    float told(int32_t label, const Desk& desk) const {
        return bias_.data()[label] + desk.sums[static_cast<size_t>(label)];
    }

    In1<int32_t> features_;
    In1<int64_t> indptr_;
    In1<int32_t> labels_;
    In1<float> weights_;
    In1<float> bias_;
    int64_t n_features_;
};

}  // namespace sparseleaf

void bind_telling(nb::module_& m) {
    using namespace sparseleaf;
    m.def("select_telling", &select_telling, nb::arg("indptr"), nb::arg("features"), nb::arg("counts"),
          nb::arg("label_rows"), nb::arg("feature_shares"), nb::arg("found").noconvert(),
          nb::arg("common").noconvert(), nb::arg("n_threads"));
    nb::class_<TellingIndex>(m, "TellingIndex")
        .def(nb::init<In1<int32_t>, In1<int64_t>, In1<int32_t>, In1<float>, In1<float>, int64_t>(),
             nb::arg("features"), nb::arg("indptr"), nb::arg("labels"), nb::arg("weights"), nb::arg("bias"),
             nb::arg("n_features"))
        .def("join", &TellingIndex::join, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("labels"), nb::arg("scores"), nb::arg("most"), nb::arg("n_threads"));
}
