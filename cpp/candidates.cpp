// Candidate labels of rows: the trees' and the neighbours' joined, with what each has to say of them.
//
// In: the trees' best labels and scores, the nearest training rows with their closeness and labels. Out: the
// union as lists that rise by label, and a table of numbers for every candidate. Every row belongs to one
// thread.
#include <cmath>

#include "common.hpp"

namespace sparseleaf {
namespace {

// Columns of the table; others are the caller's.
enum Column : int {
    kScore = 0,          // of the trees; 0 where they do not name the label
    kRelative = 1,       // the score by the row's best
    kPlace = 2,          // log(1 + place in the trees' list); places after the last are for what it has not
    kVotes = 3,          // sum of closeness over the neighbours that have the label
    kSharp = 4,          // sum of its cubes
    kRelativeSharp = 5,  // that by the row's largest
    kNearest = 6,        // the closest of them
    kVoters = 7,         // how many
    kJoined = 8
};

struct Candidate {
    int32_t label;
    int32_t place;
    float score, votes, sharp, nearest, voters;
};

void collect(const int32_t* labels, const float* scores, int64_t width, const int32_t* rows,
             const float* closeness, int64_t n_rows, const int64_t* indptr, const int32_t* theirs,
             std::vector<Candidate>& list) {
    list.clear();
    for (int64_t j = 0; j < width; ++j)
        if (labels[j] >= 0)
            list.push_back({labels[j], static_cast<int32_t>(j), scores[j], 0.0f, 0.0f, 0.0f, 0.0f});
    for (int64_t j = 0; j < n_rows; ++j) {
        if (rows[j] < 0) continue;
        const float c = closeness[j];
        for (int64_t e = indptr[rows[j]]; e < indptr[rows[j] + 1]; ++e)
            list.push_back({theirs[e], static_cast<int32_t>(width), 0.0f, c, c * c * c, c, 1.0f});
    }
    // stable: sums are in the order of the neighbours, and the trees' entry comes first
    std::stable_sort(list.begin(), list.end(),
                     [](const Candidate& a, const Candidate& b) { return a.label < b.label; });
    size_t kept = 0;
    for (size_t i = 0; i < list.size(); ++i) {
        if (kept > 0 && list[kept - 1].label == list[i].label) {
            Candidate& into = list[kept - 1];
            into.votes += list[i].votes;
            into.sharp += list[i].sharp;
            into.nearest = std::max(into.nearest, list[i].nearest);
            into.voters += list[i].voters;
        } else {
            list[kept++] = list[i];
        }
    }
    list.resize(kept);
}

void write(const std::vector<Candidate>& list, int32_t* labels, float* table, int64_t width) {
    float best = 0.0f, sharpest = 0.0f;
    for (const auto& c : list) {
        best = std::max(best, c.score);
        sharpest = std::max(sharpest, c.sharp);
    }
    for (size_t i = 0; i < list.size(); ++i) {
        const auto& c = list[i];
        float* line = table + static_cast<int64_t>(i) * width;
        labels[i] = c.label;
        line[kScore] = c.score;
        line[kRelative] = best > 0.0f ? c.score / best : 0.0f;
        line[kPlace] = std::log1p(static_cast<float>(c.place));
        line[kVotes] = c.votes;
        line[kSharp] = c.sharp;
        line[kRelativeSharp] = sharpest > 0.0f ? c.sharp / sharpest : 0.0f;
        line[kNearest] = c.nearest;
        line[kVoters] = c.voters;
        for (int64_t f = kJoined; f < width; ++f) line[f] = 0.0f;
    }
}

}  // namespace

// labels, scores: (rows, places), -1 is none; found, closeness: (rows, k) training rows, -1 is none; indptr,
// theirs: labels of the training rows. Answers (starts, labels, table flattened), `width` numbers a
// candidate.
nb::tuple join_candidates(In2<int32_t> labels, In2<float> scores, In2<int32_t> found, In2<float> closeness,
                          In1<int64_t> indptr, In1<int32_t> theirs, int64_t width, int n_threads) {
    const auto n = static_cast<int64_t>(labels.shape(0));
    const auto places = static_cast<int64_t>(labels.shape(1)), k = static_cast<int64_t>(found.shape(1));
    require(scores.shape(0) == labels.shape(0) && scores.shape(1) == labels.shape(1), "scores: as labels");
    require(static_cast<int64_t>(found.shape(0)) == n && closeness.shape(0) == found.shape(0) &&
                closeness.shape(1) == found.shape(1),
            "found, closeness: (rows, k)");
    require_indptr(indptr, theirs.size());
    require(width >= kJoined && n_threads >= 1, "width: too small");
    const auto n_training = static_cast<int64_t>(indptr.size()) - 1;
    for (int64_t i = 0; i < n * k; ++i)
        require(found.data()[i] >= -1 && found.data()[i] < n_training, "found: no such row");
    std::unique_ptr<int64_t[]> starts;
    std::unique_ptr<int32_t[]> joined;
    std::unique_ptr<float[]> table;
    {
        nb::gil_scoped_release release;
        starts = std::make_unique<int64_t[]>(static_cast<size_t>(n) + 1);
        constexpr int64_t kBlock = 64;
        const int64_t n_blocks = (n + kBlock - 1) / kBlock;
        std::vector<std::vector<Candidate>> lists(static_cast<size_t>(n));
        parallel_tasks(n_blocks, n_threads, [&](int64_t block, int) {
            for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row)
                collect(labels.data() + row * places, scores.data() + row * places, places,
                        found.data() + row * k, closeness.data() + row * k, k, indptr.data(), theirs.data(),
                        lists[row]);
        });
        for (int64_t row = 0; row < n; ++row)
            starts[row + 1] = starts[row] + static_cast<int64_t>(lists[row].size());
        joined.reset(new int32_t[static_cast<size_t>(starts[n])]);
        table.reset(new float[static_cast<size_t>(starts[n] * width)]);
        parallel_tasks(n_blocks, n_threads, [&](int64_t block, int) {
            for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row)
                write(lists[row], joined.get() + starts[row], table.get() + starts[row] * width, width);
        });
    }
    const int64_t total = starts[n];
    return nb::make_tuple(to_numpy(std::move(starts), static_cast<size_t>(n) + 1),
                          to_numpy(std::move(joined), static_cast<size_t>(total)),
                          to_numpy(std::move(table), static_cast<size_t>(total * width)));
}

// Inner products of rows with the sparse vectors of their candidates.
class LabelVectors {
  public:
    LabelVectors(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, int64_t n_features)
        : indptr_(indptr), indices_(indices), data_(data), n_features_(n_features) {
        require(indices.size() == data.size(), "vectors: indices, data: same size");
        require_indptr(indptr, data.size());
        nb::gil_scoped_release release;
        for (size_t e = 0; e < indices.size(); ++e) {
            require(indices.data()[e] >= 0 && indices.data()[e] < n_features, "vectors: no such feature");
            require(std::isfinite(data.data()[e]), "vectors must be finite");
        }
    }

    // Candidates of row i are labels[starts[i]:starts[i + 1]].
    void products(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<int64_t> starts,
                  In1<int32_t> labels, Out1<float> out, int n_threads) const {
        const auto n = static_cast<int64_t>(indptr.size()) - 1;
        const auto n_labels = static_cast<int64_t>(indptr_.size()) - 1;
        require(indices.size() == data.size() && labels.size() == out.size(), "arrays: same size");
        require_indptr(indptr, data.size());
        require_indptr(starts, labels.size());
        require(starts.size() == indptr.size(), "starts: one more than rows");
        for (size_t e = 0; e < labels.size(); ++e)
            require(labels.data()[e] >= 0 && labels.data()[e] < n_labels, "labels: no such label");
        for (size_t e = 0; e < indices.size(); ++e)
            require(indices.data()[e] >= 0 && indices.data()[e] < n_features_,
                    "indices: a feature that the model does not have");
        nb::gil_scoped_release release;
        constexpr int64_t kBlock = 64;
        std::vector<std::vector<float>> tables(static_cast<size_t>(n_threads));
        parallel_tasks((n + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int thread) {
            auto& x = tables[static_cast<size_t>(thread)];
            if (x.empty()) x.assign(static_cast<size_t>(n_features_), 0.0f);
            for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
                for (int64_t e = indptr.data()[row]; e < indptr.data()[row + 1]; ++e)
                    x[indices.data()[e]] = data.data()[e];
                for (int64_t c = starts.data()[row]; c < starts.data()[row + 1]; ++c) {
                    const int32_t label = labels.data()[c];
                    float sum = 0.0f;
                    for (int64_t e = indptr_.data()[label]; e < indptr_.data()[label + 1]; ++e)
                        sum += data_.data()[e] * x[indices_.data()[e]];
                    out.data()[c] = sum;
                }
                for (int64_t e = indptr.data()[row]; e < indptr.data()[row + 1]; ++e)
                    x[indices.data()[e]] = 0.0f;
            }
        });
    }

  private:
    In1<int64_t> indptr_;
    In1<int32_t> indices_;
    In1<float> data_;
    int64_t n_features_;
};

}  // namespace sparseleaf

void bind_candidates(nb::module_& m) {
    using namespace sparseleaf;
    m.def("join_candidates", &join_candidates, nb::arg("labels"), nb::arg("scores"), nb::arg("found"),
          nb::arg("closeness"), nb::arg("indptr"), nb::arg("theirs"), nb::arg("width"), nb::arg("n_threads"));
    nb::class_<LabelVectors>(m, "LabelVectors")
        .def(nb::init<In1<int64_t>, In1<int32_t>, In1<float>, int64_t>(), nb::arg("indptr"),
             nb::arg("indices"), nb::arg("data"), nb::arg("n_features"))
        .def("products", &LabelVectors::products, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("starts"), nb::arg("labels"), nb::arg("out").noconvert(), nb::arg("n_threads"));
}
