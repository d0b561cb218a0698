// The sparse state of training rows before the first tree: see rows.hpp.
#include "rows.hpp"

namespace sparseleaf {
namespace {

// Validates the row pointers of rows [begin, end), which are read unchecked.
void require_range(const In1<int64_t>& indptr, size_t n_entries, int64_t begin, int64_t end) {
    require(indptr.data()[begin] >= 0 && indptr.data()[end] <= static_cast<int64_t>(n_entries) &&
                std::is_sorted(indptr.data() + begin, indptr.data() + end + 1),
            "indptr: must increase from 0 to the number of entries");
}

// Rows [begin, end) of a block: the labels of `truth`, and those of `before` with their scores. Labels are
// renumbered by rank_of, and dropped if that is -1. Both matrices are CSR, `before` may have no rows. Returns
// the block: indptr, labels, scores.
nb::tuple start_rows(In1<int64_t> truth_indptr, In1<int32_t> truth, In1<int64_t> before_indptr,
                     In1<int32_t> before, In1<float> scores, In1<int32_t> rank_of, int64_t begin, int64_t end,
                     int n_threads) {
    require(before.size() == scores.size(), "before, scores: must have equal sizes");
    const bool continued = before_indptr.size() > 1;
    require(0 <= begin && begin <= end && end < static_cast<int64_t>(truth_indptr.size()) &&
                (!continued || before_indptr.size() == truth_indptr.size()),
            "begin, end: must be rows of both matrices");
    require_range(truth_indptr, truth.size(), begin, end);
    if (continued) require_range(before_indptr, before.size(), begin, end);
    const int64_t n = end - begin;
    const auto n_labels = static_cast<int64_t>(rank_of.size());
    const auto ranked = [&](int64_t label) {
        require(label >= 0 && label < n_labels, "labels: must have a rank");
        return rank_of.data()[label];
    };
    struct Part {
        std::vector<uint32_t> labels;
        std::vector<float> scores;
    };
    constexpr int64_t kRows = 128;
    const int64_t n_parts = (n + kRows - 1) / kRows;
    std::vector<Part> parts(static_cast<size_t>(n_parts));
    auto indptr = std::make_unique<int64_t[]>(static_cast<size_t>(n) + 1);
    std::unique_ptr<uint32_t[]> labels;
    std::unique_ptr<float[]> values;
    {
        GilRelease release;
        parallel_tasks(n_parts, n_threads, [&](int64_t number, int) {
            Part& part = parts[static_cast<size_t>(number)];
            std::vector<std::pair<uint32_t, float>> earlier;
            std::vector<uint32_t> row;
            for (int64_t i = number * kRows; i < std::min(n, (number + 1) * kRows); ++i) {
                row.clear();
                earlier.clear();
                for (int64_t e = truth_indptr.data()[begin + i]; e < truth_indptr.data()[begin + i + 1]; ++e)
                    if (const int32_t rank = ranked(truth.data()[e]); rank >= 0)
                        row.push_back(static_cast<uint32_t>(rank));
                std::sort(row.begin(), row.end());
                row.erase(std::unique(row.begin(), row.end()), row.end());
                if (continued)
                    for (int64_t e = before_indptr.data()[begin + i]; e < before_indptr.data()[begin + i + 1];
                         ++e)
                        if (const int32_t rank = ranked(before.data()[e]); rank >= 0)
                            earlier.emplace_back(static_cast<uint32_t>(rank), scores.data()[e]);
                std::sort(earlier.begin(), earlier.end());
                size_t t = 0;
                for (const auto& [label, score] : earlier) {
                    for (; t < row.size() && row[t] < label; ++t) {
                        part.labels.push_back(row[t] | kTruth);
                        part.scores.push_back(0.0f);
                    }
                    const bool both = t < row.size() && row[t] == label;
                    t += both;
                    part.labels.push_back(label | (both ? kTruth : 0));
                    part.scores.push_back(score);
                }
                for (; t < row.size(); ++t) part.labels.push_back(row[t] | kTruth);
                part.scores.resize(part.labels.size(), 0.0f);
                indptr[i + 1] = static_cast<int64_t>(part.labels.size());  // within the part so far
            }
        });
        indptr[0] = 0;
        for (int64_t number = 0, offset = 0; number < n_parts; ++number) {
            for (int64_t i = number * kRows; i < std::min(n, (number + 1) * kRows); ++i)
                indptr[i + 1] += offset;
            offset += static_cast<int64_t>(parts[static_cast<size_t>(number)].labels.size());
        }
        labels.reset(new uint32_t[static_cast<size_t>(indptr[n])]);
        values.reset(new float[static_cast<size_t>(indptr[n])]);
        parallel_tasks(n_parts, n_threads, [&](int64_t number, int) {
            const Part& part = parts[static_cast<size_t>(number)];
            std::copy(part.labels.begin(), part.labels.end(), labels.get() + indptr[number * kRows]);
            std::copy(part.scores.begin(), part.scores.end(), values.get() + indptr[number * kRows]);
        });
    }
    const auto size = static_cast<size_t>(indptr[n]);
    return nb::make_tuple(to_numpy(std::move(indptr), static_cast<size_t>(n) + 1),
                          to_numpy(std::move(labels), size), to_numpy(std::move(values), size));
}

}  // namespace
}  // namespace sparseleaf

void bind_start(nb::module_& m) {
    m.def("start_rows", &sparseleaf::start_rows, nb::arg("truth_indptr"), nb::arg("truth"),
          nb::arg("before_indptr"), nb::arg("before"), nb::arg("scores"), nb::arg("rank_of"),
          nb::arg("begin"), nb::arg("end"), nb::arg("n_threads"));
}
