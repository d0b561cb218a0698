#include "text/counter.hpp"

#include <limits>

namespace sparseleaf {

// A term of the vocabulary, with its first bytes as a number, which decides most comparisons.
struct TermCounter::Kept {
    uint64_t first_bytes;
    std::string_view term;
    uint32_t shard, number;

    bool operator<(const Kept& other) const {
        return first_bytes != other.first_bytes ? first_bytes < other.first_bytes : term < other.term;
    }
};

namespace {

constexpr size_t kFewestSlots = 1024;

uint64_t first_bytes(std::string_view term) {
    uint64_t value = 0;
    for (size_t i = 0; i < 8; ++i)
        value = value << 8 | (i < term.size() ? static_cast<unsigned char>(term[i]) : 0);
    return value;
}

// Sorts in parallel; elements are distinct, so that the result does not depend on threads.
template <typename T>
void parallel_sort(std::vector<T>& items, int n_threads) {
    const auto n = static_cast<int64_t>(items.size());
    int64_t n_runs = 1;
    while (n_runs < n_threads && n / (2 * n_runs) > 4096) n_runs *= 2;
    const auto border = [&](int64_t run) { return items.begin() + n * run / n_runs; };
    parallel_tasks(n_runs, n_threads, [&](int64_t run, int) { std::sort(border(run), border(run + 1)); });
    for (int64_t width = 1; width < n_runs; width *= 2)
        parallel_tasks(n_runs / (2 * width), n_threads, [&](int64_t pair, int) {
            std::inplace_merge(border(2 * pair * width), border((2 * pair + 1) * width),
                               border((2 * pair + 2) * width));
        });
}

}  // namespace

uint32_t TermCounter::Shard::find_or_add(uint64_t hash, std::string_view new_term) {
    if (slots.empty()) slots.assign(kFewestSlots, 0);
    const size_t mask = slots.size() - 1;
    size_t slot = hash & mask;
    for (; slots[slot] != 0; slot = (slot + 1) & mask) {
        const uint32_t number = slots[slot] - 1;
        if (hashes[number] == hash && term(number) == new_term) return number;
    }
    const size_t number = hashes.size();
    require(number < size_t{1} << (32 - kShardBits), "texts: too many distinct terms");
    slots[slot] = static_cast<uint32_t>(number + 1);
    hashes.push_back(hash);
    text.insert(text.end(), new_term.begin(), new_term.end());
    offsets.push_back(text.size());
    documents.push_back(0);
    occurrences.push_back(0);
    if (2 * hashes.size() > mask) grow();
    return static_cast<uint32_t>(number);
}

void TermCounter::Shard::grow() {
    slots.assign(2 * slots.size(), 0);
    const size_t mask = slots.size() - 1;
    for (size_t i = 0; i < hashes.size(); ++i) {
        size_t slot = hashes[i] & mask;
        while (slots[slot] != 0) slot = (slot + 1) & mask;
        slots[slot] = static_cast<uint32_t>(i + 1);
    }
}

TermCounter::TermCounter(std::shared_ptr<TextAnalyzer> analyzer, bool keep_rows)
    : analyzer_(std::move(analyzer)), keep_rows_(keep_rows), shards_(kShards) {
    require(analyzer_ != nullptr, "analyzer: must not be None");
}

void TermCounter::add(nb::list fields, int n_threads) {
    require(n_threads >= 1, "n_threads must be at least 1");
    require(!finished_, "add: the vocabulary is finished");
    const Texts texts(fields, analyzer_->n_fields());
    GilRelease release;
    const int64_t n_pieces = (texts.n_rows() + kRowsPerTask - 1) / kRowsPerTask;
    const size_t first = documents_.size();
    documents_.resize(first + static_cast<size_t>(n_pieces));
    std::vector<Piece> pieces(static_cast<size_t>(n_pieces));
    std::vector<DocumentTerms> scratch(static_cast<size_t>(n_threads));
    parallel_tasks(n_pieces, n_threads, [&](int64_t p, int thread) {
        analyze(texts, p * kRowsPerTask, pieces[static_cast<size_t>(p)],
                documents_[first + static_cast<size_t>(p)], scratch[static_cast<size_t>(thread)]);
    });
    parallel_tasks(static_cast<int64_t>(kShards), n_threads,
                   [&](int64_t shard, int) { look_up(static_cast<size_t>(shard), pieces, first); });
    if (!keep_rows_) documents_.clear();
    n_rows_ += texts.n_rows();
}

void TermCounter::analyze(const Texts& texts, int64_t first, Piece& piece, Documents& documents,
                          DocumentTerms& scratch) {
    const int64_t last = std::min(texts.n_rows(), first + kRowsPerTask);
    for (int64_t row = first; row < last; ++row) {
        scratch.analyze(*analyzer_, texts.row(row));
        const size_t begin = piece.text.size();
        piece.text.insert(piece.text.end(), scratch.text().begin(), scratch.text().end());
        for (const Term& term : scratch.terms()) {
            piece.terms.push_back(term);
            piece.text_of_term.push_back(begin);
            if (keep_rows_) documents.values.push_back(static_cast<float>(term.weight));
        }
        require(piece.terms.size() <= std::numeric_limits<uint32_t>::max(), "texts: too many terms");
        documents.ends.push_back(static_cast<uint32_t>(piece.terms.size()));
    }
    if (keep_rows_) documents.terms.resize(piece.terms.size());
    piece.shard_starts.assign(kShards + 1, 0);
    for (const Term& term : piece.terms) ++piece.shard_starts[shard_of(term.hash) + 1];
    std::partial_sum(piece.shard_starts.begin(), piece.shard_starts.end(), piece.shard_starts.begin());
    piece.order.resize(piece.terms.size());
    std::vector<uint32_t> next(piece.shard_starts.begin(), piece.shard_starts.end() - 1);
    for (size_t i = 0; i < piece.terms.size(); ++i)
        piece.order[next[shard_of(piece.terms[i].hash)]++] = static_cast<uint32_t>(i);
}

void TermCounter::look_up(size_t number, std::vector<Piece>& pieces, size_t first_documents) {
    Shard& shard = shards_[number];
    for (size_t p = 0; p < pieces.size(); ++p) {
        const Piece& piece = pieces[p];
        for (uint32_t k = piece.shard_starts[number]; k < piece.shard_starts[number + 1]; ++k) {
            const uint32_t i = piece.order[k];
            const Term& term = piece.terms[i];
            const uint32_t id = shard.find_or_add(
                term.hash, {piece.text.data() + piece.text_of_term[i] + term.begin, term.length});
            ++shard.documents[id];
            shard.occurrences[id] += term.count;
            if (keep_rows_)
                documents_[first_documents + p].terms[i] = id << kShardBits | static_cast<uint32_t>(number);
        }
    }
}

std::vector<TermCounter::Kept> TermCounter::select(int64_t min_count, int64_t max_count, int64_t max_terms,
                                                   int n_threads) {
    std::vector<Kept> kept;
    for (size_t s = 0; s < kShards; ++s)
        for (size_t i = 0; i < shards_[s].hashes.size(); ++i)
            if (shards_[s].documents[i] >= min_count && shards_[s].documents[i] <= max_count) {
                const std::string_view term = shards_[s].term(i);
                kept.push_back({first_bytes(term), term, static_cast<uint32_t>(s), static_cast<uint32_t>(i)});
            }
    if (max_terms > 0 && static_cast<int64_t>(kept.size()) > max_terms) {
        const auto occurrences = [&](const Kept& k) { return shards_[k.shard].occurrences[k.number]; };
        std::nth_element(kept.begin(), kept.begin() + max_terms, kept.end(),
                         [&](const Kept& a, const Kept& b) {
                             const int64_t of_a = occurrences(a), of_b = occurrences(b);
                             return of_a != of_b ? of_a > of_b : a < b;
                         });
        kept.resize(static_cast<size_t>(max_terms));
    }
    require(kept.size() <= std::numeric_limits<int32_t>::max(), "texts: more than 2^31 - 1 terms");
    parallel_sort(kept, n_threads);
    return kept;
}

nb::tuple TermCounter::finish(int64_t min_count, int64_t max_count, int64_t max_terms, int n_threads) {
    require(n_threads >= 1, "n_threads must be at least 1");
    require(!finished_, "finish: may be called once");
    std::unique_ptr<uint8_t[]> text;
    std::unique_ptr<uint32_t[]> lengths, counts;
    size_t n_terms = 0, n_bytes = 0;
    {
        GilRelease release;
        finished_ = true;
        const std::vector<Kept> kept = select(min_count, max_count, max_terms, n_threads);
        n_terms = kept.size();
        for (const Kept& term : kept) n_bytes += term.term.size();
        text.reset(new uint8_t[n_bytes]);
        lengths.reset(new uint32_t[n_terms]);
        counts.reset(new uint32_t[n_terms]);
        for (Shard& shard : shards_) shard.columns.assign(shard.hashes.size(), -1);
        uint8_t* out = text.get();
        for (size_t column = 0; column < n_terms; ++column) {
            Shard& shard = shards_[kept[column].shard];
            const std::string_view term = kept[column].term;
            std::memcpy(out, term.data(), term.size());
            out += term.size();
            lengths[column] = static_cast<uint32_t>(term.size());
            counts[column] = shard.documents[kept[column].number];
            shard.columns[kept[column].number] = static_cast<int32_t>(column);
        }
        for (Shard& shard : shards_) {  // of which only the columns are needed now
            std::vector<int32_t> columns = std::move(shard.columns);
            shard = Shard();
            shard.columns = std::move(columns);
        }
    }
    return nb::make_tuple(to_numpy(std::move(text), n_bytes), to_numpy(std::move(lengths), n_terms),
                          to_numpy(std::move(counts), n_terms));
}

nb::tuple TermCounter::rows(int n_threads) {
    require(n_threads >= 1, "n_threads must be at least 1");
    require(finished_ && keep_rows_, "rows: must follow finish, of a counter that keeps rows");
    keep_rows_ = false;
    std::vector<RowBlock> blocks(documents_.size());
    {
        GilRelease release;
        parallel_tasks(static_cast<int64_t>(blocks.size()), n_threads, [&](int64_t b, int) {
            Documents& documents = documents_[static_cast<size_t>(b)];
            RowBlock& block = blocks[static_cast<size_t>(b)];
            uint32_t i = 0;
            for (const uint32_t end : documents.ends) {
                const size_t begin = block.entries.size();
                for (; i < end; ++i) {
                    const uint32_t term = documents.terms[i];
                    const int32_t column = shards_[term & (kShards - 1)].columns[term >> kShardBits];
                    if (column >= 0) block.entries.push_back({column, documents.values[i]});
                }
                sort_by_column(block.entries, begin);
                block.ends.push_back(static_cast<int64_t>(block.entries.size()));
            }
            documents = Documents();
        });
        documents_.clear();
        shards_.clear();
    }
    return to_csr(blocks, n_rows_, n_threads);
}

}  // namespace sparseleaf
