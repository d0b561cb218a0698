// Ranking losses: every loss is one file with one function, registered by name, that fills gradients and
// hessians of one query's documents. A query is processed by one thread, so results do not depend on threads.
//
// Scores increase with relevance; g is the derivative of the loss, h the second derivative or a substitute.
#pragma once

#include <bit>
#include <cmath>
#include <functional>
#include <string>

#include "../common.hpp"
#include "../exp.hpp"

namespace sparseleaf {

// 2^grade - 1; grades are usually small integers.
inline double gain_of(float grade) {
    const auto whole = static_cast<int32_t>(grade);
    if (whole >= 0 && whole < 31 && static_cast<float>(whole) == grade)
        return static_cast<double>((1 << whole) - 1);
    return std::exp2(static_cast<double>(grade)) - 1.0;
}

// A key that increases as the score decreases.
inline uint32_t descending(float score) {
    const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 and 0 are one score
    return bits & 0x80000000u ? bits : ~bits & 0x7fffffffu;
}

// Documents of one query: grades, scores and ranking.
struct Query {
    std::vector<double> score, grade, gain;
    std::vector<int32_t> ranked;  // best score first, ties in order of row
    std::vector<uint64_t> keys;
    int64_t n = 0;

    void load(const int32_t* rows, int64_t count, const float* scores, const float* grades, double factor) {
        n = count;
        score.resize(static_cast<size_t>(n));
        grade.resize(static_cast<size_t>(n));
        gain.resize(static_cast<size_t>(n));
        ranked.resize(static_cast<size_t>(n));
        keys.resize(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) {
            score[i] = factor * scores[rows[i]];
            grade[i] = grades[rows[i]];
            gain[i] = gain_of(grades[rows[i]]);
            keys[i] = static_cast<uint64_t>(descending(scores[rows[i]])) << 32 | static_cast<uint64_t>(i);
        }
        std::sort(keys.begin(), keys.end());
        for (int64_t r = 0; r < n; ++r) ranked[r] = static_cast<int32_t>(keys[r] & 0xffffffffu);
    }

    // Whether all orders of the documents are equally good: then there is nothing to learn, and sums that
    // should be 0 would leave rounding errors.
    bool all_equal() const {
        return std::adjacent_find(grade.begin(), grade.end(), std::not_equal_to<>()) == grade.end();
    }
};

// 1/log2(rank + 2), tabulated: a logarithm costs more than the rest of a pair.
class Discounts {
  public:
    void reach(int64_t n) {
        for (auto rank = static_cast<int64_t>(values_.size()); rank < n; ++rank)
            values_.push_back(1.0 / std::log2(static_cast<double>(rank) + 2.0));
    }
    const double* data() const { return values_.data(); }
    double operator[](int64_t rank) const { return values_[rank]; }

  private:
    std::vector<double> values_;
};

// The ideal DCG at k. Grades that are small integers are counted instead of sorted.
inline double ideal_dcg(const Query& query, int64_t k, const Discounts& discounts) {
    constexpr int kGrades = 31;
    int32_t counts[kGrades] = {};
    bool whole = true;
    for (int64_t i = 0; i < query.n && whole; ++i) {
        const auto grade = static_cast<int32_t>(query.grade[i]);
        whole = grade >= 0 && grade < kGrades && static_cast<double>(grade) == query.grade[i];
        if (whole) ++counts[grade];
    }
    double sum = 0.0;
    int64_t rank = 0;
    if (whole) {
        for (int grade = kGrades - 1; grade > 0; --grade)
            for (int32_t c = 0; c < counts[grade] && rank < k; ++c)
                sum += static_cast<double>((1 << grade) - 1) * discounts[rank++];
        return sum;
    }
    std::vector<double> best = query.gain;
    std::sort(best.begin(), best.end(), std::greater<>());
    for (; rank < std::min(k, query.n); ++rank) sum += best[rank] * discounts[rank];
    return sum;
}

struct RankingOptions {
    int change;        // of LambdaMART: the metric whose change weights a pair, in the order of CHANGES in
                       // objectives/lambdamart.py
    int64_t places;    // of LambdaMART: truncation level of the higher-ranked document of a pair
    bool normalise;    // of LambdaMART
    double parameter;  // σ or τ
};

using RankingLoss = void (*)(const Query&, const Discounts&, const RankingOptions&, double* g, double* h);

// Registers a loss, as a constant in its file.
struct RegisterRankingLoss {
    RegisterRankingLoss(const char* name, RankingLoss loss);
};

}  // namespace sparseleaf
