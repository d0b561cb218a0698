// Texts to rows of term frequencies, by a vocabulary or by hashing; weighting and joining of rows.
#include "text/rows.hpp"

#include <cmath>

#include "text/index.hpp"
#include "text/text.hpp"

namespace sparseleaf {

nb::tuple to_csr(const std::vector<RowBlock>& blocks, int64_t n_rows, int n_threads) {
    std::unique_ptr<int64_t[]> indptr;
    std::unique_ptr<int32_t[]> columns;
    std::unique_ptr<float[]> values;
    int64_t total = 0;
    {
        GilRelease release;
        indptr.reset(new int64_t[n_rows + 1]);
        indptr[0] = 0;
        std::vector<int64_t> starts;
        int64_t row = 0;
        for (const RowBlock& block : blocks) {
            starts.push_back(total);
            for (const int64_t end : block.ends) indptr[++row] = total + end;
            total += static_cast<int64_t>(block.entries.size());
        }
        columns.reset(new int32_t[total]);
        values.reset(new float[total]);
        parallel_tasks(static_cast<int64_t>(blocks.size()), n_threads, [&](int64_t b, int) {
            int64_t at = starts[static_cast<size_t>(b)];
            for (const Entry& entry : blocks[static_cast<size_t>(b)].entries) {
                columns[at] = entry.column;
                values[at++] = entry.value;
            }
        });
    }
    return nb::make_tuple(to_numpy(std::move(indptr), static_cast<size_t>(n_rows) + 1),
                          to_numpy(std::move(columns), static_cast<size_t>(total)),
                          to_numpy(std::move(values), static_cast<size_t>(total)));
}

nb::tuple count_terms(const TextAnalyzer& analyzer, const TermIndex& index, nb::list fields, int n_threads) {
    require(n_threads >= 1, "n_threads must be at least 1");
    const Texts texts(fields, analyzer.n_fields());
    std::vector<RowBlock> blocks;
    {
        GilRelease release;
        blocks = make_rows(analyzer, texts, n_threads,
                           [&](const DocumentTerms& document, std::vector<Entry>& entries) {
                               const size_t begin = entries.size();
                               for (const Term& term : document.terms()) {
                                   const int32_t column = index.find(term.hash, document.view(term));
                                   if (column >= 0)
                                       entries.push_back({column, static_cast<float>(term.weight)});
                               }
                               sort_by_column(entries, begin);
                           });
    }
    return to_csr(blocks, texts.n_rows(), n_threads);
}

namespace {

// MurmurHash3 for 32-bit results with seed 0, as in scikit-learn's FeatureHasher.
uint32_t murmur3(std::string_view text) {
    constexpr uint32_t kFirst = 0xcc9e2d51, kSecond = 0x1b873593;
    const auto scrambled = [](uint32_t k) { return std::rotl(k * kFirst, 15) * kSecond; };
    const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
    uint32_t hash = 0;
    size_t i = 0;
    for (; i + 4 <= text.size(); i += 4) {
        const uint32_t word = byte(i) | byte(i + 1) << 8 | byte(i + 2) << 16 | byte(i + 3) << 24;
        hash = std::rotl(hash ^ scrambled(word), 13) * 5 + 0xe6546b64;
    }
    uint32_t rest = 0;
    for (size_t k = text.size(); k > i; --k) rest = rest << 8 | byte(k - 1);
    if (i < text.size()) hash ^= scrambled(rest);
    hash ^= static_cast<uint32_t>(text.size());
    hash = (hash ^ hash >> 16) * 0x85ebca6b;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35;
    return hash ^ hash >> 16;
}

// Adds up entries of the same column, from `begin`; with `binary`, keeps the largest.
void merge_columns(std::vector<Entry>& entries, size_t begin, bool binary) {
    std::stable_sort(entries.begin() + static_cast<std::ptrdiff_t>(begin), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.column < b.column; });
    size_t kept = begin;
    for (size_t i = begin; i < entries.size();) {
        const int32_t column = entries[i].column;
        double sum = 0;
        for (; i < entries.size() && entries[i].column == column; ++i)
            sum = binary ? std::max<double>(sum, entries[i].value) : sum + entries[i].value;
        entries[kept++] = {column, static_cast<float>(sum)};
    }
    entries.resize(kept);
}

}  // namespace

nb::tuple hash_terms(const TextAnalyzer& analyzer, int32_t n_columns, bool alternate_sign, nb::list fields,
                     int n_threads) {
    require(n_threads >= 1, "n_threads must be at least 1");
    require(n_columns >= 1, "n_columns must be at least 1");
    const Texts texts(fields, analyzer.n_fields());
    std::vector<RowBlock> blocks;
    {
        GilRelease release;
        blocks = make_rows(
            analyzer, texts, n_threads, [&](const DocumentTerms& document, std::vector<Entry>& entries) {
                const size_t begin = entries.size();
                for (const Term& term : document.terms()) {
                    const auto hash = static_cast<int32_t>(murmur3(document.view(term)));
                    const auto column = static_cast<int32_t>(std::abs(int64_t{hash}) % n_columns);
                    const bool negative = alternate_sign && !analyzer.binary() && hash < 0;
                    entries.push_back({column, static_cast<float>(negative ? -term.weight : term.weight)});
                }
                merge_columns(entries, begin, analyzer.binary());
            });
    }
    return to_csr(blocks, texts.n_rows(), n_threads);
}

void weigh_terms(In1<int64_t> indptr, In1<int32_t> columns, Out1<float> values, In1<double> idf,
                 bool sublinear, int norm, double weight, int n_threads) {
    constexpr int kL1 = 1, kL2 = 2;
    require(columns.size() == values.size(), "columns, values: must have equal sizes");
    require_indptr(indptr, columns.size());
    require(norm >= 0 && norm <= kL2, "norm: must be 0, 1 or 2");
    const auto n_terms = static_cast<int64_t>(idf.size());
    if (n_terms > 0)
        for (size_t i = 0; i < columns.size(); ++i)
            require(columns.data()[i] >= 0 && columns.data()[i] < n_terms, "columns: must have an idf");
    GilRelease release;
    const auto n_rows = static_cast<int64_t>(indptr.size()) - 1;
    const int64_t n_tasks = (n_rows + kRowsPerTask - 1) / kRowsPerTask;
    const int threads = threads_for(static_cast<int64_t>(columns.size()), n_threads);
    parallel_tasks(n_tasks, threads, [&](int64_t task, int) {
        std::vector<double> row;
        for (int64_t r = task * kRowsPerTask; r < std::min(n_rows, (task + 1) * kRowsPerTask); ++r) {
            const int64_t begin = indptr.data()[r], end = indptr.data()[r + 1];
            row.assign(values.data() + begin, values.data() + end);
            if (sublinear)
                for (double& value : row) value = value > 1 ? std::log(value) + 1 : value;
            if (n_terms > 0)
                for (int64_t i = begin; i < end; ++i)
                    row[static_cast<size_t>(i - begin)] *= idf.data()[columns.data()[i]];
            double size = 0;
            for (const double value : row) size += norm == kL2 ? value * value : std::abs(value);
            if (norm == kL2) size = std::sqrt(size);
            if (norm == 0 || size == 0) size = 1;
            for (int64_t i = begin; i < end; ++i)
                values.data()[i] = static_cast<float>(row[static_cast<size_t>(i - begin)] / size * weight);
        }
    });
}

nb::tuple join_columns(nb::list parts, In1<int64_t> offsets, int n_threads) {
    struct Part {
        In1<int64_t> indptr;
        In1<int32_t> columns;
        In1<float> values;
    };
    std::vector<Part> all;
    for (nb::handle item : parts) {
        const auto part = nb::cast<nb::tuple>(item);
        require(nb::len(part) == 3, "parts: must be tuples of three arrays");
        all.push_back({nb::cast<In1<int64_t>>(part[0]), nb::cast<In1<int32_t>>(part[1]),
                       nb::cast<In1<float>>(part[2])});
    }
    require(!all.empty() && offsets.size() == all.size(), "offsets: must have one entry per part");
    const size_t n_pointers = all[0].indptr.size();
    size_t total = 0;
    for (const Part& part : all) {
        require(part.columns.size() == part.values.size(), "columns, values: must have equal sizes");
        require_indptr(part.indptr, part.columns.size());
        require(part.indptr.size() == n_pointers, "parts: must have the same number of rows");
        total += part.columns.size();
    }
    std::unique_ptr<int64_t[]> indptr(new int64_t[n_pointers]);
    std::unique_ptr<int32_t[]> columns(new int32_t[total]);
    std::unique_ptr<float[]> values(new float[total]);
    {
        GilRelease release;
        for (size_t r = 0; r < n_pointers; ++r) {
            indptr[r] = 0;
            for (const Part& part : all) indptr[r] += part.indptr.data()[r];
        }
        const auto n_rows = static_cast<int64_t>(n_pointers) - 1;
        const int64_t n_tasks = (n_rows + kRowsPerTask - 1) / kRowsPerTask;
        parallel_tasks(n_tasks, threads_for(static_cast<int64_t>(total), n_threads), [&](int64_t task, int) {
            for (int64_t r = task * kRowsPerTask; r < std::min(n_rows, (task + 1) * kRowsPerTask); ++r) {
                int64_t at = indptr[r];
                for (size_t p = 0; p < all.size(); ++p)
                    for (int64_t i = all[p].indptr.data()[r]; i < all[p].indptr.data()[r + 1]; ++i) {
                        columns[at] = static_cast<int32_t>(all[p].columns.data()[i] + offsets.data()[p]);
                        values[at++] = all[p].values.data()[i];
                    }
            }
        });
    }
    return nb::make_tuple(to_numpy(std::move(indptr), n_pointers), to_numpy(std::move(columns), total),
                          to_numpy(std::move(values), total));
}

}  // namespace sparseleaf
