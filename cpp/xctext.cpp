// XC text ("extreme classification" format) to arrays, and arrays to XC text.
//
//   90452 88279 41218                    header: rows N, features D, labels L
//   369,1457 3:0.0966 4:0.0579           labels, then feature:value pairs; ids count from 0
//    7:1                                 no labels: the line starts with a blank, or with a pair
//   12                                   no features
//                                        neither: an empty line is a row too
//
// In: the bytes of one file. Out: the header and two sets of CSR arrays, ids ascending and unique in each
// row. The bytes may come from a stranger: whatever they are, the parser returns or throws
// std::invalid_argument, memory is bounded by what the text holds (never by what its header claims), and
// the line that is blamed is the first bad one for any number of threads.
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <system_error>

#include "common.hpp"
#include "parse_float.hpp"

namespace sparseleaf {
namespace {

// More threads than this only cost memory for their bookkeeping.
constexpr int kMaxThreads = 256;
// Chunks per thread: lines differ in length and cost, smaller pieces even that out.
constexpr int kChunksPerThread = 4;
constexpr int64_t kMaxId = std::numeric_limits<int32_t>::max();

// What is wrong with a line; the caller adds its number.
struct BadLine {
    std::string message;
};

bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

const char* skip_blanks(const char* p, const char* end) {
    while (p < end && is_blank(*p)) ++p;
    return p;
}

const char* token_end(const char* p, const char* end) {
    while (p < end && !is_blank(*p)) ++p;
    return p;
}

// The line's end without trailing blanks and the '\r' of a Windows line ending.
const char* trim_end(const char* begin, const char* end) {
    while (end > begin && (is_blank(end[-1]) || end[-1] == '\r')) --end;
    return end;
}

const char* line_end(const char* p, const char* end) {
    const void* newline = p < end ? std::memchr(p, '\n', static_cast<size_t>(end - p)) : nullptr;
    return newline ? static_cast<const char*>(newline) : end;
}

// A short excerpt that is safe to print: a hostile file must not be able to write to a terminal.
std::string quoted(const char* begin, const char* end) {
    constexpr int64_t kLongest = 40;
    const char* stop = begin + std::min<int64_t>(end - begin, kLongest);
    std::string out = "'";
    for (const char* p = begin; p < stop; ++p) {
        const auto c = static_cast<unsigned char>(*p);
        if (c >= 0x20 && c < 0x7f && c != '\'' && c != '\\') {
            out += *p;
        } else {
            constexpr char digits[] = "0123456789abcdef";
            out += {'\\', 'x', digits[c >> 4], digits[c & 15]};
        }
    }
    out += stop < end ? "...'" : "'";
    return out;
}

[[noreturn]] void refuse(const char* begin, const char* end, const std::string& expected) {
    throw BadLine{"expected " + expected + ", got " + quoted(begin, end)};
}

// ---------------------------------------------------------------------------------------------- header

struct Header {
    int64_t n_rows, n_features, n_labels;
};

Header parse_header(const char* begin, const char* end) {
    const char* const expected =
        "a header of three non-negative integers, 'rows features labels', the last two below 2147483648";
    end = trim_end(begin, end);
    int64_t numbers[3];
    const char* p = begin;
    for (int64_t& number : numbers) {
        p = skip_blanks(p, end);
        const char* stop = token_end(p, end);
        const auto [ptr, error] = std::from_chars(p, stop, number);
        // from_chars takes "-0" for a number; an id or a count never has a sign.
        if (error != std::errc{} || ptr != stop || *p == '-') refuse(begin, end, expected);
        p = stop;
    }
    if (p != end || numbers[1] > kMaxId || numbers[2] > kMaxId) refuse(begin, end, expected);
    return {numbers[0], numbers[1], numbers[2]};
}

// ---------------------------------------------------------------------------------------------- one row

// The number is too big or too small even for a double: true if it is the latter. Only the sign of its
// decimal exponent matters, so the digits are not looked at beyond the first that is not zero.
bool is_tiny(const char* p, const char* end) {
    if (p < end && *p == '-') ++p;
    int64_t magnitude = 0;  // power of ten just above the first digit that is not zero
    bool seen_point = false, seen_digit = false;
    for (; p < end && *p != 'e' && *p != 'E'; ++p) {
        if (*p == '.') {
            seen_point = true;
        } else {
            seen_digit = seen_digit || *p != '0';
            if (seen_digit && !seen_point) ++magnitude;
            if (!seen_digit && seen_point) --magnitude;
        }
    }
    if (p == end) return magnitude < 0;
    ++p;
    if (p < end && *p == '+') ++p;
    int64_t exponent = 0;
    const bool negative = p < end && *p == '-';
    if (std::from_chars(p, end, exponent).ec != std::errc{}) return negative;
    return exponent < -magnitude;
}

// One float32: decimal digits, or nan for "missing". Too small rounds to zero as everywhere; infinite or
// too large is refused. Returns the first character after it, or nullptr.
const char* parse_value(const char* p, const char* end, float& value) {
    const auto [ptr, error] = parse_float(p, end, value);
    if (error == std::errc{}) {
        if (std::isfinite(value)) return ptr;
        // Of what from_chars reads as "not a number", nan(chars) is C's own and means nothing here.
        if (!std::isnan(value) || ptr - p > (*p == '-' ? 4 : 3)) return nullptr;
        value = std::numeric_limits<float>::quiet_NaN();
        return ptr;
    }
    if (error != std::errc::result_out_of_range) return nullptr;
    double wide = 0;
    const auto again = parse_float(p, end, wide);
    if (again.ec == std::errc{}) {
        value = static_cast<float>(wide);
    } else {
        value = is_tiny(p, ptr) ? 0.0f : std::numeric_limits<float>::infinity();
    }
    return std::isfinite(value) ? ptr : nullptr;
}

const char* parse_id(const char* p, const char* end, int64_t limit, int32_t& id) {
    if (p < end && *p == '-') return nullptr;
    const auto [ptr, error] = std::from_chars(p, end, id);
    return error == std::errc{} && id < limit ? ptr : nullptr;
}

// label,label,... -> ids ascending and unique; returns how many.
int64_t parse_labels(const char* p, const char* end, int64_t n_labels, int32_t* ids) {
    int64_t count = 0;
    bool ascending = true;
    while (true) {
        int32_t id = 0;
        const char* next = parse_id(p, end, n_labels, id);
        if (!next || (next < end && *next != ',')) {
            const char* stop = std::find(p, end, ',');
            refuse(p, stop, "a label id, an integer in [0, " + std::to_string(n_labels) + ")");
        }
        ascending = ascending && (count == 0 || ids[count - 1] < id);
        ids[count++] = id;
        if (next == end) break;
        p = next + 1;
    }
    if (!ascending) {
        std::sort(ids, ids + count);
        count = std::unique(ids, ids + count) - ids;
    }
    return count;
}

using Pair = std::pair<int32_t, float>;

// Sort a row by id and add up what has the same id: in double and in the order of the file, so that the
// sum is the same on every machine.
int64_t merge_pairs(int32_t* ids, float* values, int64_t count, std::vector<Pair>& scratch) {
    scratch.clear();
    for (int64_t i = 0; i < count; ++i) scratch.emplace_back(ids[i], values[i]);
    std::stable_sort(scratch.begin(), scratch.end(),
                     [](const Pair& a, const Pair& b) { return a.first < b.first; });
    int64_t kept = 0;
    for (size_t i = 0; i < scratch.size();) {
        const int32_t id = scratch[i].first;
        double sum = 0;
        for (; i < scratch.size() && scratch[i].first == id; ++i) sum += scratch[i].second;
        const auto value = static_cast<float>(sum);
        if (std::isinf(value)) {
            throw BadLine{"the values of feature " + std::to_string(id) +
                          " add up to more than a float32 holds"};
        }
        if (value == 0) continue;
        ids[kept] = id;
        values[kept++] = value;
    }
    return kept;
}

// feature:value ... -> ids ascending and unique, no zeros; returns how many.
int64_t parse_features(const char* p, const char* end, int64_t n_features, int32_t* ids, float* values,
                       std::vector<Pair>& scratch) {
    int64_t count = 0;
    bool ascending = true;
    for (p = skip_blanks(p, end); p < end; p = skip_blanks(p, end)) {
        int32_t id = 0;
        float value = 0;
        const char* next = parse_id(p, end, n_features, id);
        next = next && next < end && *next == ':' ? parse_value(next + 1, end, value) : nullptr;
        if (!next || (next < end && !is_blank(*next))) {
            refuse(p, token_end(p, end),
                   "feature:value with an integer feature in [0, " + std::to_string(n_features) +
                       ") and a float32 value, finite or nan");
        }
        p = next;
        // A zero says what leaving the pair out says; dropped here, it costs nothing later.
        if (value == 0) continue;
        ascending = ascending && (count == 0 || ids[count - 1] < id);
        ids[count] = id;
        values[count++] = value;
    }
    return ascending ? count : merge_pairs(ids, values, count, scratch);
}

// ---------------------------------------------------------------------------------------------- all rows

// A run of whole lines. Every separator is one byte of the text, so counting them first bounds what the
// chunk can yield, and all chunks write straight into the final arrays:
//
//   labels = [chunk 0: 5 of at most 7 ..|chunk 1: 3 of 4 .|...]   then moved together: [5|3|...]
struct Chunk {
    const char *begin = nullptr, *end = nullptr;
    int64_t first_row = 0, n_lines = 0;
    int64_t labels_at = 0, max_labels = 0, n_labels = 0;
    int64_t features_at = 0, max_features = 0, n_features = 0;
    int64_t bad_row = -1;
    std::string problem;
};

void count_separators(Chunk& chunk) {
    int64_t newlines = 0, commas = 0, colons = 0;
    for (const char* p = chunk.begin; p < chunk.end;) {
        // Blocks short enough for 8-bit counters: the compiler can count 16 or more bytes at once.
        const char* stop = p + std::min<int64_t>(chunk.end - p, 255);
        uint8_t n = 0, c = 0, f = 0;
        for (; p < stop; ++p) {
            n = static_cast<uint8_t>(n + (*p == '\n'));
            c = static_cast<uint8_t>(c + (*p == ','));
            f = static_cast<uint8_t>(f + (*p == ':'));
        }
        newlines += n;
        commas += c;
        colons += f;
    }
    const bool open_line = chunk.begin < chunk.end && chunk.end[-1] != '\n';
    chunk.n_lines = newlines + open_line;
    chunk.max_labels = commas + chunk.n_lines;
    chunk.max_features = colons;
}

struct Csr {
    std::unique_ptr<int64_t[]> indptr;
    std::unique_ptr<int32_t[]> ids;
    std::unique_ptr<float[]> values;
};

// Row lengths go to indptr[row + 1]; the caller adds them up.
void parse_chunk(Chunk& chunk, const Header& header, Csr& labels, Csr& features) {
    std::vector<Pair> scratch;
    const char* p = chunk.begin;
    for (int64_t row = chunk.first_row; p < chunk.end; ++row) {
        const char* newline = line_end(p, chunk.end);
        const char* end = trim_end(p, newline);
        try {
            const char* first = skip_blanks(p, end);
            if (row >= header.n_rows) {
                // Editors leave empty lines at the end; anything else is a row too many.
                if (first < end) {
                    refuse(first, end, "only " + std::to_string(header.n_rows) + " rows, as in the header");
                }
            } else {
                int32_t* label_ids = labels.ids.get() + chunk.labels_at + chunk.n_labels;
                const char* stop = token_end(first, end);
                int64_t n = 0;
                if (first < stop && std::find(first, stop, ':') == stop) {
                    n = parse_labels(first, stop, header.n_labels, label_ids);
                    first = stop;
                }
                labels.indptr[row + 1] = n;
                chunk.n_labels += n;
                const int64_t at = chunk.features_at + chunk.n_features;
                n = parse_features(first, end, header.n_features, features.ids.get() + at,
                                   features.values.get() + at, scratch);
                features.indptr[row + 1] = n;
                chunk.n_features += n;
            }
        } catch (BadLine& bad) {
            chunk.bad_row = row;
            chunk.problem = std::move(bad.message);
            return;
        }
        p = newline + 1;
    }
}

std::vector<Chunk> split_into_chunks(const char* begin, const char* end, int n_threads) {
    const int64_t n_chunks = n_threads * kChunksPerThread;
    std::vector<Chunk> chunks(static_cast<size_t>(n_chunks));
    const int64_t size = end - begin;
    const char* p = begin;
    for (int64_t c = 0; c < n_chunks; ++c) {
        // Written so that size * c cannot overflow.
        const char* target = begin + size / n_chunks * (c + 1) + size % n_chunks * (c + 1) / n_chunks;
        chunks[c].begin = p;
        if (c + 1 == n_chunks) {
            p = end;
        } else if (target > p) {
            const char* newline = line_end(target - 1, end);
            p = newline < end ? newline + 1 : end;
        }
        chunks[c].end = p;
    }
    return chunks;
}

// Close the gaps that chunks left behind their last entry.
template <typename T>
void move_together(T* data, const std::vector<Chunk>& chunks, int64_t Chunk::* at, int64_t Chunk::* count) {
    int64_t filled = 0;
    for (const Chunk& chunk : chunks) {
        if (chunk.*count > 0 && filled != chunk.*at) {
            std::memmove(data + filled, data + chunk.*at, sizeof(T) * static_cast<size_t>(chunk.*count));
        }
        filled += chunk.*count;
    }
}

[[noreturn]] void refuse_line(int64_t line, const std::string& problem) {
    throw std::invalid_argument("line " + std::to_string(line) + ": " + problem);
}

struct Parsed {
    Header header;
    Csr labels, features;
};

Parsed parse(const char* begin, const char* end, int n_threads) {
    Parsed out{};
    const char* body = line_end(begin, end);
    try {
        out.header = parse_header(begin, body);
    } catch (const BadLine& bad) {
        refuse_line(1, bad.message);
    }
    if (body < end) ++body;

    std::vector<Chunk> chunks = split_into_chunks(body, end, n_threads);
    const auto n_chunks = static_cast<int64_t>(chunks.size());
    parallel_tasks(n_chunks, n_threads, [&](int64_t c, int) { count_separators(chunks[c]); });

    int64_t n_lines = 0, max_labels = 0, max_features = 0;
    for (Chunk& chunk : chunks) {
        chunk.first_row = n_lines;
        chunk.labels_at = max_labels;
        chunk.features_at = max_features;
        n_lines += chunk.n_lines;
        max_labels += chunk.max_labels;
        max_features += chunk.max_features;
    }
    const int64_t n_rows = std::min(n_lines, out.header.n_rows);

    // new T[n] leaves the memory untouched: pages that the bound was too generous for are never taken.
    out.labels.indptr.reset(new int64_t[n_rows + 1]);
    out.labels.ids.reset(new int32_t[max_labels]);
    out.features.indptr.reset(new int64_t[n_rows + 1]);
    out.features.ids.reset(new int32_t[max_features]);
    out.features.values.reset(new float[max_features]);

    parallel_tasks(n_chunks, n_threads,
                   [&](int64_t c, int) { parse_chunk(chunks[c], out.header, out.labels, out.features); });
    for (const Chunk& chunk : chunks) {
        if (chunk.bad_row >= 0) refuse_line(chunk.bad_row + 2, chunk.problem);
    }
    if (n_lines < out.header.n_rows) {
        refuse_line(n_lines + 2, "expected " + std::to_string(out.header.n_rows) +
                                     " rows, as in the header, got " + std::to_string(n_lines));
    }

    move_together(out.labels.ids.get(), chunks, &Chunk::labels_at, &Chunk::n_labels);
    move_together(out.features.ids.get(), chunks, &Chunk::features_at, &Chunk::n_features);
    move_together(out.features.values.get(), chunks, &Chunk::features_at, &Chunk::n_features);
    for (Csr* csr : {&out.labels, &out.features}) {
        csr->indptr[0] = 0;
        std::partial_sum(csr->indptr.get(), csr->indptr.get() + n_rows + 1, csr->indptr.get());
    }
    return out;
}

nb::tuple xc_parse(In1<uint8_t> text, int n_threads) {
    require(n_threads >= 1, "n_threads must be at least 1");
    Parsed out;
    {
        GilRelease release;
        const auto* begin = reinterpret_cast<const char*>(text.data());
        out = parse(begin, begin + text.size(), std::min(n_threads, kMaxThreads));
    }
    const auto n_rows = static_cast<size_t>(out.header.n_rows);
    const auto n_label_ids = static_cast<size_t>(out.labels.indptr[n_rows]);
    const auto n_feature_ids = static_cast<size_t>(out.features.indptr[n_rows]);
    return nb::make_tuple(out.header.n_rows, out.header.n_features, out.header.n_labels,
                          to_numpy(std::move(out.labels.indptr), n_rows + 1),
                          to_numpy(std::move(out.labels.ids), n_label_ids),
                          to_numpy(std::move(out.features.indptr), n_rows + 1),
                          to_numpy(std::move(out.features.ids), n_feature_ids),
                          to_numpy(std::move(out.features.values), n_feature_ids));
}

// ---------------------------------------------------------------------------------------------- writing

// An id, its separator and the longest shortest float32 ("-1.17549435e-38") fit with room to spare.
constexpr size_t kLongestPair = 48;

template <typename T>
char* put(char* p, T number) {
    return std::to_chars(p, p + kLongestPair / 2, number).ptr;
}

// One side of a row: its ids and, for features, their values.
struct Side {
    const int64_t* indptr;
    const int32_t* ids;
    const float* values;

    int64_t size(int64_t row) const { return indptr[row + 1] - indptr[row]; }
};

void check_indptr(const In1<int64_t>& indptr, int64_t row_begin, int64_t row_end, size_t n_ids) {
    require(row_end < static_cast<int64_t>(indptr.size()), "rows: beyond the end of indptr");
    require(indptr(row_begin) >= 0 && indptr(row_end) <= static_cast<int64_t>(n_ids),
            "indptr: points beyond the ids");
    for (int64_t row = row_begin; row < row_end; ++row) {
        require(indptr(row) <= indptr(row + 1), "indptr: must not descend");
    }
}

char* put_row(char* p, int64_t row, const Side& labels, const Side& features) {
    for (int64_t i = labels.indptr[row]; i < labels.indptr[row + 1]; ++i) {
        if (i > labels.indptr[row]) *p++ = ',';
        p = put(p, labels.ids[i]);
    }
    for (int64_t i = features.indptr[row]; i < features.indptr[row + 1]; ++i) {
        *p++ = ' ';
        p = put(p, features.ids[i]);
        *p++ = ':';
        // to_chars would keep the sign of a nan, which says nothing.
        const float value = features.values[i];
        p = put(p, std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value);
    }
    *p++ = '\n';
    return p;
}

std::string format_rows(int64_t first, int64_t last, const Side& labels, const Side& features) {
    std::string text;
    std::vector<char> line;
    for (int64_t row = first; row < last; ++row) {
        const size_t room = kLongestPair * static_cast<size_t>(labels.size(row) + features.size(row) + 1);
        if (line.size() < room) line.resize(room);
        text.append(line.data(), put_row(line.data(), row, labels, features));
    }
    return text;
}

Numpy1<uint8_t> xc_format(In1<int64_t> label_indptr, In1<int32_t> label_ids, In1<int64_t> feature_indptr,
                          In1<int32_t> feature_ids, In1<float> values, int64_t row_begin, int64_t row_end,
                          int n_threads) {
    require(n_threads >= 1, "n_threads must be at least 1");
    require(0 <= row_begin && row_begin <= row_end, "rows: must satisfy 0 <= row_begin <= row_end");
    require(values.size() == feature_ids.size(), "values: must have one entry per feature id");
    check_indptr(label_indptr, row_begin, row_end, label_ids.size());
    check_indptr(feature_indptr, row_begin, row_end, feature_ids.size());
    const Side labels{label_indptr.data(), label_ids.data(), nullptr};
    const Side features{feature_indptr.data(), feature_ids.data(), values.data()};

    std::unique_ptr<uint8_t[]> joined;
    size_t total = 0;
    {
        GilRelease release;
        n_threads = std::min(n_threads, kMaxThreads);
        const int64_t n_rows = row_end - row_begin;
        std::vector<std::string> parts(static_cast<size_t>(n_threads));
        parallel_tasks(n_threads, n_threads, [&](int64_t t, int) {
            parts[t] = format_rows(row_begin + n_rows * t / n_threads,
                                   row_begin + n_rows * (t + 1) / n_threads, labels, features);
        });
        for (const std::string& part : parts) total += part.size();
        joined.reset(new uint8_t[total]);
        size_t at = 0;
        for (std::string& part : parts) {
            std::memcpy(joined.get() + at, part.data(), part.size());
            at += part.size();
            std::string().swap(part);
        }
    }
    return to_numpy(std::move(joined), total);
}

}  // namespace
}  // namespace sparseleaf

void bind_xctext(nb::module_& m) {
    using namespace nb::literals;
    m.def("xc_parse", &sparseleaf::xc_parse, "text"_a, "n_threads"_a,
          "XC text -> (N, D, L, label indptr, label ids, feature indptr, feature ids, values).");
    m.def("xc_format", &sparseleaf::xc_format, "label_indptr"_a, "label_ids"_a, "feature_indptr"_a,
          "feature_ids"_a, "values"_a, "row_begin"_a, "row_end"_a, "n_threads"_a,
          "Rows [row_begin, row_end) of two CSR matrices -> XC text without the header.");
}
