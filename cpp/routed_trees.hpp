// The arrays of routed trees and of rows, as prediction reads them.
#pragma once

#include "router.hpp"

namespace sparseleaf::routed {

constexpr int kMaxRouters = 16;

struct Rows {
    const int64_t* indptr;
    const int32_t* indices;
    const float* data;
    int64_t n;
};

struct RoutedTrees {
    const int64_t* tree_offsets;   // first node of every tree, and the end
    const int32_t* child;          // first child, relative to the tree's first node; in a leaf, its index
    const int32_t* inner;          // index of an inner node over all trees; -1 in a leaf
    const int64_t* router_indptr;  // entries of every inner node
    const int32_t* features;       // of the entries, increasing within a node; null for small_weights
    const AnyIn1* steps;           // from one feature of a node to the next
    const float* weights;          // (entries, arity)
    const int16_t* short_weights;  // the same in 16 bits, in place of weights
    const float* bias;             // (inner nodes, arity)
    int arity;
    float threshold;
    const int8_t*
        small_weights;   // (entries, arity - 1), in place of weights; then bias has a column less, too
    const float* scale;  // (inner nodes) of weights in 8 or 16 bits
    RowView view;
};

struct Hit {
    int32_t row, leaf;
};

}  // namespace sparseleaf::routed
