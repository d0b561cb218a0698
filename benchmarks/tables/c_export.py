"""Speed of exported C predictors, on the page about exports."""

from __future__ import annotations

from benchmarks.tables.common import DOCS, about, read, table, with_tables

PAGE = DOCS / "export.md"

MODELS = {
    "bibtex forest": "Bibtex, SketchForest",
    "bibtex leml": "Bibtex, GBDT-SPARSE with LEML",
    "bibtex ldsm": "Bibtex, LdSM",
    "bibtex bayes": 'Bibtex, SketchForest with `rerank="bayes"`',
    "delicious forest": "Delicious, SketchForest",
    "delicious leml": "Delicious, GBDT-SPARSE with LEML",
    "delicious ldsm": "Delicious, LdSM",
    "tibkat-gnd forest": "tibkat-gnd, SketchForest",
}


def page() -> str:
    results = read("c_export")
    rows = [
        [
            name,
            f"{results[key]['n_rows']:,}",
            f"{results[key]['c_rows_per_second']:,.0f}",
            f"{results[key]['python_rows_per_second']:,.0f}",
            f"{results[key]['c_rows_per_second'] / results[key]['python_rows_per_second']:.2f}",
            f"{1e6 / results[key]['python_microseconds_single_row']:,.0f}",
            str(results[key]["differing_rows"]),
        ]
        for key, name in MODELS.items()
    ]
    heads = [
        "dataset, model",
        "test rows",
        "C, rows/s",
        "Python, all rows in one call, rows/s",
        "C : Python",
        "Python, a row per call, rows/s",
        "rows that differ",
    ]
    return with_tables(PAGE, f"{table(heads, rows)}\n\nOn {about(results['machine'])}.\n")
