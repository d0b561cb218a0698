// CSR rows that tasks write independently.
#pragma once

#include <numeric>

#include "text/document.hpp"

namespace sparseleaf {

constexpr int64_t kRowsPerTask = 64;

struct Entry {
    int32_t column;
    float value;
};

// Entries of consecutive rows.
struct RowBlock {
    std::vector<Entry> entries;
    std::vector<int64_t> ends;  // of every row
};

// (indptr, columns, values) of the rows of all blocks.
nb::tuple to_csr(const std::vector<RowBlock>& blocks, int64_t n_rows, int n_threads);

// Rows of a batch of texts: each(terms, entries) appends the entries of one document. Called without the GIL.
template <typename Each>
std::vector<RowBlock> make_rows(const TextAnalyzer& analyzer, const Texts& texts, int n_threads, Each each) {
    const int64_t n_rows = texts.n_rows(), n_tasks = (n_rows + kRowsPerTask - 1) / kRowsPerTask;
    std::vector<RowBlock> blocks(static_cast<size_t>(n_tasks));
    std::vector<DocumentTerms> documents(static_cast<size_t>(std::max(1, n_threads)));
    parallel_tasks(n_tasks, n_threads, [&](int64_t task, int thread) {
        DocumentTerms& document = documents[static_cast<size_t>(thread)];
        RowBlock& block = blocks[static_cast<size_t>(task)];
        for (int64_t row = task * kRowsPerTask; row < std::min(n_rows, (task + 1) * kRowsPerTask); ++row) {
            document.analyze(analyzer, texts.row(row));
            each(document, block.entries);
            block.ends.push_back(static_cast<int64_t>(block.entries.size()));
        }
    });
    return blocks;
}

inline void sort_by_column(std::vector<Entry>& entries, size_t begin) {
    std::sort(entries.begin() + static_cast<std::ptrdiff_t>(begin), entries.end(),
              [](const Entry& a, const Entry& b) { return a.column < b.column; });
}

}  // namespace sparseleaf
