// The distinct terms of one document, and batches of documents.
#pragma once

#include <cstring>

#include "text/analyzer.hpp"

namespace sparseleaf {

// A fast 64-bit hash, for tables in memory only.
inline uint64_t hash_bytes(const char* p, size_t size) {
    constexpr uint64_t kFactor = 0x9fb21c651e98df25ULL;
    const auto load64 = [](const char* q) {
        uint64_t value;
        std::memcpy(&value, q, 8);
        return value;
    };
    uint64_t hash = size * kFactor;
    if (size >= 8) {
        const char* const last = p + size - 8;
        for (; p < last; p += 8) hash = (hash ^ load64(p)) * kFactor, hash ^= hash >> 32;
        return mix64(hash ^ load64(last));
    }
    if (size >= 4) {
        uint32_t low, high;
        std::memcpy(&low, p, 4);
        std::memcpy(&high, p + size - 4, 4);
        return mix64(hash ^ (uint64_t{high} << 32 | low));
    }
    uint64_t word = 0;
    for (size_t i = 0; i < size; ++i) word = word << 8 | static_cast<unsigned char>(p[i]);
    return mix64(hash ^ word);
}

// Texts of Python strings in UTF-8: one row per document, one view per field. The GIL is needed to create and
// to destroy it.
class Texts {
  public:
    Texts(const nb::list& fields, size_t n_fields);

    int64_t n_rows() const { return n_rows_; }
    std::span<const std::string_view> row(int64_t row) const {
        return {views_.data() + static_cast<size_t>(row) * n_fields_, n_fields_};
    }

  private:
    size_t n_fields_;
    int64_t n_rows_ = 0;
    std::vector<nb::object> owners_;
    std::vector<std::string_view> views_;
};

// A distinct term of a document: a slice of its text with the sum of the weights of its occurrences.
struct Term {
    uint64_t hash;
    uint32_t begin, length;
    double weight;
    int64_t count;
};

class DocumentTerms {
  public:
    // Finds the distinct terms, in the order of their first occurrence.
    void analyze(const TextAnalyzer& analyzer, std::span<const std::string_view> fields);

    const std::vector<Term>& terms() const { return terms_; }
    const std::vector<char>& text() const { return parsed_.text; }
    std::string_view view(const Term& term) const { return {parsed_.text.data() + term.begin, term.length}; }

  private:
    void add(uint32_t begin, uint32_t end, double weight, bool binary);
    void grow();

    ParsedText parsed_;
    std::vector<Term> terms_;
    std::vector<uint32_t> slots_;  // 1 + number of a term, or 0
    size_t mask_ = 0;
};

}  // namespace sparseleaf
