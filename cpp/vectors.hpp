// Inner products of one sparse row with many sparse vectors: the row is scattered into a table over all
// features, from which vectors read what they need.
#pragma once

#include <bit>
#include <cmath>
#include <cstdlib>
#include <new>

#include "common.hpp"

namespace sparseleaf {

// An array of zeros whose untouched pages take no memory: an untrusted model may claim billions of features,
// of which rows touch a few.
class ZeroTable {
  public:
    ZeroTable() = default;
    ZeroTable(const ZeroTable&) = delete;
    ZeroTable& operator=(const ZeroTable&) = delete;
    ~ZeroTable() { std::free(data_); }

    // Resizes to at least this size and clears.
    void make(size_t size) {
        if (size <= size_) return;
        std::free(data_);
        size_ = 0;
        data_ = static_cast<float*>(std::calloc(size, sizeof(float)));
        if (!data_) throw std::bad_alloc();
        size_ = size;
    }

    bool empty() const { return size_ == 0; }
    float* data() { return data_; }
    float& operator[](size_t at) { return data_[at]; }
    float operator[](size_t at) const { return data_[at]; }

  private:
    float* data_ = nullptr;
    size_t size_ = 0;
};

// A row scattered into a table over all features. The table is thread-local and outlives the row, since its
// allocation costs more than a row; the destructor clears it.
class SpreadRow {
  public:
    explicit SpreadRow(int64_t n_features) : table_(table(static_cast<size_t>(n_features))) {}
    SpreadRow(const SpreadRow&) = delete;
    SpreadRow& operator=(const SpreadRow&) = delete;
    ~SpreadRow() { clear(); }

    void set(int32_t feature, float value) {
        touched_.push_back(feature);
        table_[static_cast<size_t>(feature)] = value;
    }

    void clear() {
        for (const int32_t feature : touched_) table_[static_cast<size_t>(feature)] = 0.0f;
        touched_.clear();
    }

    float operator[](uint64_t feature) const { return table_[feature]; }

  private:
    // a thread scatters one row at a time
    static ZeroTable& table(size_t size) {
        thread_local ZeroTable zeros;
        zeros.make(size);
        return zeros;
    }

    ZeroTable& table_;
    std::vector<int32_t> touched_;
};

// Calls use(pointer) with the array's unsigned integers of 8, 16 or 32 bits.
template <typename F>
inline decltype(auto) with_unsigned(const AnyIn1& array, F&& use) {
    if (array.dtype() == nb::dtype<uint8_t>()) return use(static_cast<const uint8_t*>(array.data()));
    if (array.dtype() == nb::dtype<uint16_t>()) return use(static_cast<const uint16_t*>(array.data()));
    require(array.dtype() == nb::dtype<uint32_t>(), "steps: must be unsigned integers of 8, 16 or 32 bits");
    return use(static_cast<const uint32_t*>(array.data()));
}

// Delta-encoded lists of increasing indices, the first of a list relative to 0. A leap is a position in
// `steps` and a multiple of 2^16 to add to its step.
//
// Steps may be in a mapped file that changes: every index is checked when it is decoded, and a list ends
// before an invalid one.
class IndexLists {
  public:
    IndexLists(In1<int64_t> indptr, AnyIn1 steps, In2<uint32_t> leaps, int64_t width)
        : indptr_(indptr), steps_(steps), leaps_(leaps), width_(static_cast<uint64_t>(width)) {
        require_indptr(indptr, steps.size());
        require(width >= 0 && width <= int64_t{1} << 31, "width: must be between 0 and 2^31");
        require(leaps.shape(1) == 2, "leaps: must have a position and a number each");
        for (size_t i = 0; i < leaps.shape(0); ++i)
            require(leap(i) < steps.size() && (i == 0 || leap(i - 1) < leap(i)),
                    "leaps: a place that does not exist");
        GilRelease release;
        for (int64_t line = 0; line < n_lines(); ++line) {
            int64_t n = 0;
            each(line, [&](int64_t, uint64_t) { ++n; });
            require(n == indptr_.data()[line + 1] - indptr_.data()[line],
                    "steps: an index that does not exist");
        }
    }

    int64_t n_lines() const { return static_cast<int64_t>(indptr_.size()) - 1; }
    int64_t width() const { return static_cast<int64_t>(width_); }

    // Calls use(place, index) for every index of a list.
    template <typename F>
    void each(int64_t line, F&& use) const {
        with_unsigned(steps_, [&](const auto* steps) {
            uint64_t index = 0;
            int64_t at = indptr_.data()[line];
            const int64_t end = indptr_.data()[line + 1];
            for (size_t i = first_leap(at); at < end; ++i) {
                const bool leaps_here = i < n_leaps() && leap(i) < static_cast<uint64_t>(end);
                const int64_t until = leaps_here ? static_cast<int64_t>(leap(i)) : end;
                for (; at < until; ++at) {
                    index += steps[at];
                    if (index >= width_) return;
                    use(at, index);
                }
                if (leaps_here) index += static_cast<uint64_t>(leaps_.data()[2 * i + 1]) << 16;
            }
        });
    }

  protected:
    size_t n_leaps() const { return leaps_.shape(0); }

    // Whether a list has leaps: few have, since they are gaps of more than 2^16.
    bool leaps_in(int64_t line) const {
        if (n_leaps() == 0) return false;
        const size_t first = first_leap(indptr_.data()[line]);
        return first < n_leaps() && leap(first) < static_cast<uint64_t>(indptr_.data()[line + 1]);
    }

    uint64_t leap(size_t i) const { return leaps_.data()[2 * i]; }

    // The first leap at or after a position.
    size_t first_leap(int64_t place) const {
        size_t low = 0, high = n_leaps();
        while (low < high) {
            const size_t middle = (low + high) / 2;
            if (leap(middle) < static_cast<uint64_t>(place))
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }

    In1<int64_t> indptr_;
    AnyIn1 steps_;
    In2<uint32_t> leaps_;
    uint64_t width_;
};

// Sparse vectors: values are float32, or 8-bit integers with a scale per vector.
class PackedVectors : public IndexLists {
  public:
    PackedVectors(In1<int64_t> indptr, AnyIn1 steps, In2<uint32_t> leaps, AnyIn1 values, In1<float> scale,
                  int64_t width)
        : IndexLists(indptr, steps, leaps, width),
          values_(values),
          scale_(scale),
          small_(values.dtype() == nb::dtype<int8_t>()) {
        require(small_ || values.dtype() == nb::dtype<float>(), "values: must be float32 or int8");
        require(values.size() == steps.size(), "steps, values: same size");
        require(static_cast<int64_t>(scale.size()) == (small_ ? n_lines() : 0),
                "scale: one for every vector, of values in 8 bits only");
        GilRelease release;
        for (int64_t line = 0; line < n_lines(); ++line)
            each_value(line, [&](uint64_t, float value) {
                require(std::isfinite(value), "vectors must be finite");
            });
    }

    // Calls use(index, value) for every entry of a line.
    template <typename F>
    void each_value(int64_t line, F&& use) const {
        if (small_) {
            const auto* values = static_cast<const int8_t*>(values_.data());
            const float scale = scale_.data()[line];
            each(line,
                 [&](int64_t at, uint64_t index) { use(index, static_cast<float>(values[at]) * scale); });
        } else {
            const auto* values = static_cast<const float*>(values_.data());
            each(line, [&](int64_t at, uint64_t index) { use(index, values[at]); });
        }
    }

    // Four lanes, for instruction-level parallelism.
    float product(int32_t line, const SpreadRow& x) const {
        if (!leaps_in(line))
            return with_unsigned(steps_, [&](const auto* steps) {
                return small_ ? product_of(line, steps, static_cast<const int8_t*>(values_.data()), x)
                              : product_of(line, steps, static_cast<const float*>(values_.data()), x);
            });
        float lanes[kWide] = {};
        int64_t e = 0;
        each_value(line, [&](uint64_t index, float value) { lanes[e++ % kWide] += value * x[index]; });
        return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    }

    // Vectors are scattered in memory: prefetch the next while reading one.
    void fetch(int32_t line) const {
        const int64_t begin = indptr_.data()[line],
                      n = std::min<int64_t>(indptr_.data()[line + 1] - begin, 128);
        fetch_bytes(steps_, begin, n);
        fetch_bytes(values_, begin, n);
    }

  private:
    static constexpr int kWide = 4;

    template <typename Step, typename Value>
    float product_of(int32_t line, const Step* steps, const Value* values, const SpreadRow& x) const {
        float lanes[kWide] = {};
        const float scale = small_ ? scale_.data()[line] : 1.0f;
        uint64_t index = 0;
        int64_t e = indptr_.data()[line];
        const int64_t end = indptr_.data()[line + 1];
        for (; e + kWide <= end; e += kWide) {
            float there[kWide];
            uint32_t any = 0;
            for (int j = 0; j < kWide; ++j) {
                index += steps[e + j];
                if (index >= width_) return 0.0f;
                there[j] = x[index];
                any |= std::bit_cast<uint32_t>(there[j]);
            }
            if (any == 0) continue;  // the row has few of the features
            for (int j = 0; j < kWide; ++j)
                lanes[j] += (static_cast<float>(values[e + j]) * scale) * there[j];
        }
        for (int j = 0; e < end; ++e, ++j) {
            index += steps[e];
            if (index >= width_) return 0.0f;
            lanes[j] += (static_cast<float>(values[e]) * scale) * x[index];
        }
        return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    }

    static void fetch_bytes(const AnyIn1& array, int64_t begin, int64_t n) {
        const auto size = static_cast<int64_t>(array.itemsize());
        const char* first = static_cast<const char*>(array.data()) + begin * size;
        for (int64_t at = 0; at < n * size; at += 64) __builtin_prefetch(first + at);
    }

    AnyIn1 values_;
    In1<float> scale_;
    bool small_;
};

}  // namespace sparseleaf
