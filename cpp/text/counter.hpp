// Counts the terms of a training set and builds its vocabulary.
#pragma once

#include "text/rows.hpp"

namespace sparseleaf {

// Terms are distributed over shards by their hash. Documents of a batch are split into terms in parallel;
// then every shard looks up its terms, in parallel to the others and without locks:
//
//   documents -> [ terms of 64 documents, ordered by shard ] ... -> shard 0 | shard 1 | ... | shard 63
//
// The final columns follow from the sorted terms, and sums are of integers, so that nothing depends on
// threads.
class TermCounter {
  public:
    TermCounter(std::shared_ptr<TextAnalyzer> analyzer, bool keep_rows);

    void add(nb::list fields, int n_threads);

    // The vocabulary, (text, lengths, document_counts): the terms that are in min_count to max_count
    // documents; the `max_terms` with the most occurrences, unless it is 0.
    nb::tuple finish(int64_t min_count, int64_t max_count, int64_t max_terms, int n_threads);

    // Term frequencies of all documents, (indptr, columns, values). May be called once, after finish.
    nb::tuple rows(int n_threads);

  private:
    static constexpr int kShardBits = 6;
    static constexpr size_t kShards = size_t{1} << kShardBits;

    struct Shard {
        std::vector<uint32_t> slots;  // 1 + number of a term, or 0
        std::vector<uint64_t> hashes;
        std::vector<uint64_t> offsets{0};
        std::vector<uint32_t> documents;
        std::vector<int64_t> occurrences;
        std::vector<char> text;
        std::vector<int32_t> columns;

        std::string_view term(size_t i) const {
            return {text.data() + offsets[i], offsets[i + 1] - offsets[i]};
        }
        uint32_t find_or_add(uint64_t hash, std::string_view term);
        void grow();
    };

    // Terms of consecutive documents, before they are looked up.
    struct Piece {
        std::vector<char> text;
        std::vector<Term> terms;
        std::vector<uint64_t> text_of_term;  // where its document's text begins
        std::vector<uint32_t> order;         // terms by shard
        std::vector<uint32_t> shard_starts;
    };

    // Documents after that; a term is its number in the shard and the shard.
    struct Documents {
        std::vector<uint32_t> terms;
        std::vector<float> values;
        std::vector<uint32_t> ends;  // of every document
    };

    struct Kept;

    static size_t shard_of(uint64_t hash) { return hash >> (64 - kShardBits); }
    void analyze(const Texts& texts, int64_t first, Piece& piece, Documents& documents,
                 DocumentTerms& scratch);
    void look_up(size_t shard, std::vector<Piece>& pieces, size_t first_documents);
    std::vector<Kept> select(int64_t min_count, int64_t max_count, int64_t max_terms, int n_threads);

    std::shared_ptr<TextAnalyzer> analyzer_;
    bool keep_rows_;
    bool finished_ = false;
    std::vector<Shard> shards_;
    std::vector<Documents> documents_;
    int64_t n_rows_ = 0;
};

}  // namespace sparseleaf
