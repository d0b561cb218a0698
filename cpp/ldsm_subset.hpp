// The subset of children that minimises the objective of LdSM for a row: see ldsm.cpp.
#pragma once

#include <cmath>

#include "common.hpp"

namespace sparseleaf {

constexpr int kMaxArity = 16;

// Finds the subset of children that minimises the objective for a row.
//
// The terms of a pair of children depend only on which of the two are in the subset, so the sums over the
// row's labels are computed once per pair; subsets are then enumerated in Gray code order, each differing
// from the last by one child, which changes M - 1 pairs. All 2^M - 1 subsets cost O(r M^2 + 2^M M) for a row
// with r labels, instead of O(2^M r M^2). Since sums are exact, both give the same numbers.
class SubsetSearch {
  public:
    SubsetSearch(int arity, double lambda_1, double lambda_2)
        : arity_(arity), lambda_1_(lambda_1), lambda_2_(lambda_2) {}

    // The subset (as bits) of minimum J for a row with these labels, given sums R and Q without the row and n
    // with it. Ties are broken by a hash of the row's random key; the set of all children never wins a tie.
    // `weights` are those of the row's labels, of sum r; null: all 1.
    uint32_t best(const double* R, const double* Q, const int32_t* labels, const double* weights,
                  int64_t n_labels, double r, double n, uint64_t draw) {
        return arity_ == 2 ? search<2>(R, Q, labels, weights, n_labels, r, n, draw)
                           : search<0>(R, Q, labels, weights, n_labels, r, n, draw);
    }

    double value() const { return best_value_; }

  private:
    // Terms of a pair by which of the two are in the subset: [first][second].
    struct Pair {
        double balance[2][2], integrity[2][2];
    };

    template <int kArity>
    uint32_t search(const double* R, const double* Q, const int32_t* labels, const double* weights,
                    int64_t n_labels, double r, double n, uint64_t draw) {
        const int M = kArity ? kArity : arity_;
        double balance = 0.0, integrity = 0.0, total = 0.0;
        for (int j = 0; j < M; ++j) {
            total += R[j];
            for (int l = j + 1; l < M; ++l) {
                fill(pairs_[j][l], R[j] - R[l], r, Q, labels, weights, n_labels, j, l, M);
                balance += pairs_[j][l].balance[0][0];
                integrity += pairs_[j][l].integrity[0][0];
            }
        }
        const uint32_t all = (1u << M) - 1;
        uint32_t subset = 0, best = 0;
        for (uint32_t step = 1; step <= all; ++step) {
            const int j = __builtin_ctz(step);
            const uint32_t old = subset >> j & 1u;
            for (int l = 0; l < M; ++l) {
                if (l == j) continue;
                const uint32_t other = subset >> l & 1u;
                const Pair& pair = j < l ? pairs_[j][l] : pairs_[l][j];
                const uint32_t at = j < l ? other : old, to = j < l ? other : 1 - old;
                const uint32_t from_first = j < l ? old : other, to_first = j < l ? 1 - old : other;
                balance += pair.balance[to_first][to] - pair.balance[from_first][at];
                integrity += pair.integrity[to_first][to] - pair.integrity[from_first][at];
            }
            subset ^= 1u << j;
            const double sent = total + r * static_cast<double>(__builtin_popcount(subset));
            const double value = balance + lambda_2_ * std::abs(sent - n) - lambda_1_ * integrity;
            if (best == 0 || value < best_value_ ||
                (value == best_value_ && wins_tie(subset, best, all, draw))) {
                best = subset;
                best_value_ = value;
            }
        }
        return best;
    }

    static void fill(Pair& pair, double difference, double r, const double* Q, const int32_t* labels,
                     const double* weights, int64_t n_labels, int j, int l, int M) {
        double same = 0.0, first = 0.0, second = 0.0;
        for (int64_t i = 0; i < n_labels; ++i) {
            const double* q = Q + static_cast<int64_t>(labels[i]) * M;
            const double d = q[j] - q[l];
            same += std::abs(d);
            const double weight = weights ? weights[i] : 1.0;
            first += std::abs(d + weight);
            second += std::abs(d - weight);
        }
        pair.integrity[0][0] = pair.integrity[1][1] = same;
        pair.integrity[1][0] = first;
        pair.integrity[0][1] = second;
        pair.balance[0][0] = pair.balance[1][1] = std::abs(difference);
        pair.balance[1][0] = std::abs(difference + r);
        pair.balance[0][1] = std::abs(difference - r);
    }

    static bool wins_tie(uint32_t subset, uint32_t best, uint32_t all, uint64_t draw) {
        if (subset == all || best == all) return best == all;
        return mix64(draw ^ subset) < mix64(draw ^ best);
    }

    int arity_;
    double lambda_1_, lambda_2_, best_value_ = 0.0;
    Pair pairs_[kMaxArity][kMaxArity];
};

}  // namespace sparseleaf
