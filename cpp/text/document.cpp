#include "text/document.hpp"

namespace sparseleaf {
namespace {

constexpr size_t kFewestSlots = 256;
// Folding makes a text at most 11 times as long, and slices have 32 bits.
constexpr size_t kMaxBytes = size_t{1} << 28;

nb::object encoded(PyObject* text) {
    if (!PyUnicode_Check(text)) throw nb::type_error("texts: must be str");
    PyObject* bytes = PyUnicode_AsUTF8String(text);
    if (bytes == nullptr && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {  // lone surrogates
        PyErr_Clear();
        bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
    }
    if (bytes == nullptr) throw nb::python_error();
    return nb::steal(bytes);
}

}  // namespace

Texts::Texts(const nb::list& fields, size_t n_fields) : n_fields_(n_fields) {
    require(nb::len(fields) == n_fields, "fields: must have one list of texts per weight");
    std::vector<nb::list> lists;
    for (nb::handle field : fields) lists.push_back(nb::cast<nb::list>(field));
    n_rows_ = static_cast<int64_t>(nb::len(lists[0]));
    for (const nb::list& list : lists)
        require(static_cast<int64_t>(nb::len(list)) == n_rows_, "fields: must have the same number of texts");
    owners_.reserve(static_cast<size_t>(n_rows_) * n_fields);
    views_.reserve(static_cast<size_t>(n_rows_) * n_fields);
    for (int64_t row = 0; row < n_rows_; ++row) {
        size_t total = 0;
        for (const nb::list& list : lists) {
            owners_.push_back(encoded(nb::object(list[static_cast<size_t>(row)]).ptr()));
            char* data = nullptr;
            Py_ssize_t size = 0;
            if (PyBytes_AsStringAndSize(owners_.back().ptr(), &data, &size) != 0) throw nb::python_error();
            views_.emplace_back(data, static_cast<size_t>(size));
            total += static_cast<size_t>(size);
        }
        require(total <= kMaxBytes, "texts: a row must have at most 268,435,456 bytes");
    }
}

void DocumentTerms::analyze(const TextAnalyzer& analyzer, std::span<const std::string_view> fields) {
    parsed_.clear();
    terms_.clear();
    slots_.assign(kFewestSlots, 0);
    mask_ = kFewestSlots - 1;
    for (size_t field = 0; field < fields.size(); ++field) {
        const double weight = analyzer.field_weight(field);
        analyzer.analyze(fields[field], parsed_,
                         [&](uint32_t begin, uint32_t end) { add(begin, end, weight, analyzer.binary()); });
    }
}

void DocumentTerms::add(uint32_t begin, uint32_t end, double weight, bool binary) {
    const char* const text = parsed_.text.data();
    const uint32_t length = end - begin;
    const uint64_t hash = hash_bytes(text + begin, length);
    size_t slot = hash & mask_;
    for (; slots_[slot] != 0; slot = (slot + 1) & mask_) {
        Term& term = terms_[slots_[slot] - 1];
        if (term.hash != hash || term.length != length ||
            std::memcmp(text + term.begin, text + begin, length) != 0)
            continue;
        if (binary) {
            term.weight = std::max(term.weight, weight);
        } else {
            term.weight += weight;
            ++term.count;
        }
        return;
    }
    terms_.push_back({hash, begin, length, weight, 1});
    slots_[slot] = static_cast<uint32_t>(terms_.size());
    if (2 * terms_.size() > mask_) grow();
}

void DocumentTerms::grow() {
    slots_.assign(4 * (mask_ + 1), 0);
    mask_ = slots_.size() - 1;
    for (size_t i = 0; i < terms_.size(); ++i) {
        size_t slot = terms_[i].hash & mask_;
        while (slots_[slot] != 0) slot = (slot + 1) & mask_;
        slots_[slot] = static_cast<uint32_t>(i + 1);
    }
}

}  // namespace sparseleaf
