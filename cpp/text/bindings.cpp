#include <nanobind/stl/shared_ptr.h>

#include "text/counter.hpp"
#include "text/text.hpp"

void bind_text(nb::module_& m) {
    using namespace nb::literals;
    using namespace sparseleaf;
    nb::class_<TextTables>(m, "TextTables")
        .def(nb::init<In1<uint16_t>, In1<int32_t>, In1<uint8_t>, In1<int64_t>, In1<int32_t>>(), "page_of"_a,
             "changes"_a, "kinds"_a, "starts"_a, "expansions"_a);
    nb::class_<TextAnalyzer>(m, "TextAnalyzer")
        .def(nb::init<std::shared_ptr<TextTables>, int, int, int, In1<uint8_t>, In1<uint32_t>, In1<float>,
                      bool>(),
             "tables"_a, "analyzer"_a, "min_n"_a, "max_n"_a, "stop_text"_a, "stop_lengths"_a,
             "field_weights"_a, "binary"_a)
        .def(
            "terms",
            [](const TextAnalyzer& self, nb::str text) {
                nb::list texts, fields, terms;
                texts.append(text);
                fields.append(texts);
                const Texts encoded(fields, 1);
                for (const std::string& term : self.terms(encoded.row(0)[0]))
                    terms.append(nb::str(term.data(), term.size()));
                return terms;
            },
            "text"_a);
    nb::class_<TermIndex>(m, "TermIndex")
        .def(nb::init<In1<uint8_t>, In1<uint32_t>>(), "text"_a, "lengths"_a)
        .def_prop_ro("size", &TermIndex::size);
    nb::class_<TermCounter>(m, "TermCounter")
        .def(nb::init<std::shared_ptr<TextAnalyzer>, bool>(), "analyzer"_a, "keep_rows"_a)
        .def("add", &TermCounter::add, "fields"_a, "n_threads"_a)
        .def("finish", &TermCounter::finish, "min_count"_a, "max_count"_a, "max_terms"_a, "n_threads"_a)
        .def("rows", &TermCounter::rows, "n_threads"_a);
    m.def("count_terms", &count_terms, "analyzer"_a, "index"_a, "fields"_a, "n_threads"_a);
    m.def("hash_terms", &hash_terms, "analyzer"_a, "n_columns"_a, "alternate_sign"_a, "fields"_a,
          "n_threads"_a);
    m.def("weigh_terms", &weigh_terms, "indptr"_a, "columns"_a, "values"_a.noconvert(), "idf"_a,
          "sublinear"_a, "norm"_a, "weight"_a, "n_threads"_a);
    m.def("join_columns", &join_columns, "parts"_a, "offsets"_a, "n_threads"_a);
}
