"""Records: JSON lines, CSV and Parquet with text fields and label lists, and plain lines."""

import gzip
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparseleaf.data import Columns, Source, read, reader_of
from sparseleaf.data.readers import jsonl
from sparseleaf.data.records import as_labels, as_text

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

BOOKS = [
    {
        "id": "b1",
        "title": "Bread",
        "abstract": "Dough; and oven",
        "subjects": ["food", "baking"],
        "year": 1999,
    },
    {"id": "b2", "title": "Soup", "abstract": None, "subjects": ["food"], "year": None},
    {"id": "b3", "title": "", "abstract": "A goal", "subjects": [], "year": 2003},
]
TEXTS = [
    {"title": "Bread", "abstract": "Dough; and oven"},
    {"title": "Soup", "abstract": ""},
    {"title": "", "abstract": "A goal"},
]
LABELS = [["food", "baking"], ["food"], []]
FIELDS = {"text": ("title", "abstract"), "labels": "subjects"}


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def files(tmp_path):
    write_lines(tmp_path / "b.jsonl", BOOKS)
    frame = pd.DataFrame(BOOKS)
    frame.to_parquet(tmp_path / "b.parquet")
    frame["subjects"] = frame["subjects"].map("; ".join)
    frame.to_csv(tmp_path / "b.csv", index=False)
    frame.to_csv(tmp_path / "b.tsv.gz", index=False, sep="\t")
    frame.to_parquet(tmp_path / "s.parquet")
    return tmp_path


@pytest.mark.parametrize("name", ["b.jsonl", "b.csv", "b.tsv.gz", "b.parquet", "s.parquet"])
def test_formats_agree(files, name):
    rows = read(files / name, **FIELDS, keep=("id", "title"))
    assert rows.X == TEXTS
    assert rows.y == LABELS
    assert rows.kept["id"] == ["b1", "b2", "b3"]
    assert rows.kept["title"][:2] == ["Bread", "Soup"]
    assert rows.n_rows == 3


def test_lines_may_be_gzipped_have_a_byte_order_mark_and_empty_lines(tmp_path):
    content = b"\xef\xbb\xbf" + b'{"t": "a"}\r\n\r\n   \n{"t": "b", "other": {"x": [1]}}'
    (tmp_path / "plain.ndjson").write_bytes(content)
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(content))
    for name in ("plain.ndjson", "packed.jsonl.gz"):
        assert read(tmp_path / name, text=("t",)).X == [{"t": "a"}, {"t": "b"}]


def test_several_files_are_one_set(tmp_path):
    paths = [write_lines(tmp_path / f"{i}.jsonl", BOOKS[i : i + 1]) for i in range(3)]
    rows = read(paths, **FIELDS)
    assert (rows.X, rows.y) == (TEXTS, LABELS)


def test_numbers_and_categories_beside_the_text(files):
    for name in ("b.jsonl", "b.csv", "b.parquet"):
        rows = read(files / name, text=("title",), numeric=("year",), categorical=("id",), labelled=False)
        assert [row["id"] for row in rows.X] == ["b1", "b2", "b3"]
        np.testing.assert_array_equal([row["year"] for row in rows.X], [1999, math.nan, 2003])


def test_classes_numbers_weights_and_queries(tmp_path):
    records = [{"t": "a", "c": "x", "n": 1, "w": 2, "q": 5}, {"t": "b", "c": "y", "n": 0, "w": 0.5, "q": 5}]
    write_lines(tmp_path / "r.jsonl", records)
    pd.DataFrame(records).to_csv(tmp_path / "r.csv", index=False)
    for name in ("r.jsonl", "r.csv"):
        rows = read(tmp_path / name, text=("t",), target=("c",), weight="w")
        assert rows.y.tolist() == ["x", "y"]
        assert rows.sample_weight.tolist() == [2, 0.5]
        assert read(tmp_path / name, text=("t",), target=("n",)).y.dtype.kind == "i"
        assert read(tmp_path / name, text=("t",), target=("n", "w")).y.to_numpy().tolist() == [
            [1, 2],
            [0, 0.5],
        ]
    assert read(tmp_path / "r.jsonl", text=("t",), qid="q").qid.tolist() == [5, 5]


def test_unknown_numbers_are_nan_and_unknown_classes_are_refused(tmp_path):
    write_lines(tmp_path / "r.jsonl", [{"t": "a", "n": None, "c": "x"}, {"t": "b", "n": 3}])
    np.testing.assert_array_equal(read(tmp_path / "r.jsonl", text=("t",), target=("n",)).y, [math.nan, 3])
    with pytest.raises(ValueError, match=r"line 2: the field 'c' must be a class: .*Got None instead"):
        read(tmp_path / "r.jsonl", text=("t",), target=("c",))


def test_records_without_text_fields_are_tables(tmp_path):
    records = [{"a": 1.5, "b": "x", "y": ["p", "q"], "id": 1}, {"a": 2, "y": "q", "id": 2}]
    rows = read(write_lines(tmp_path / "r.jsonl", records), labels="y", keep=("id",))
    assert list(rows.X.columns) == ["a", "b"]
    assert rows.X["a"].tolist() == [1.5, 2]
    assert rows.X["b"].isna().tolist() == [False, True]
    assert (rows.y, rows.kept) == ([["p", "q"], ["q"]], {"id": [1, 2]})
    assert read(tmp_path / "r.jsonl", target=("a",), labels=None, keep=("y",)).y.tolist() == [1.5, 2]
    one = read(tmp_path / "r.jsonl", features=Columns(1, ["a"]), labels="y", keep=("id",), categorical=("b",))
    assert list(one.X.columns) == ["a"]
    pd.DataFrame({"a": [1, 2], "tags": ["NA;null", ""], "id": ["01", "02"]}).to_csv(
        tmp_path / "t.csv", index=False
    )
    rows = read(tmp_path / "t.csv", labels="tags", keep=("id",))
    assert list(rows.X.columns) == ["a"]
    assert (rows.y, rows.kept) == ([["NA", "null"], []], {"id": ["01", "02"]})


def test_rows_to_predict_need_no_labels_and_may_lack_fields(tmp_path):
    path = write_lines(tmp_path / "r.jsonl", [{"title": "Bread"}])
    with pytest.warns(UserWarning, match="no record has the field 'abstract'"):
        rows = read(path, **FIELDS, labelled=False)
    assert (rows.X, rows.y) == ([{"title": "Bread", "abstract": ""}], None)
    with pytest.raises(ValueError, match=r"no field 'titel' \(text\); did you mean 'title'\?"):
        read(path, text=("titel",), labelled=False)


def test_plain_lines(tmp_path):
    (tmp_path / "new.txt").write_bytes(b"\xef\xbb\xbfone text\r\n\n  two \xe2\x80\xa8 three")
    rows = read(tmp_path / "new.txt", text=(), labelled=False)
    assert rows.X == ["one text", "", "  two \u2028 three"]
    assert (rows.y, rows.n_rows) == (None, 3)
    (tmp_path / "bad.txt").write_bytes(b"ok\n\xff\n")
    with pytest.raises(ValueError, match="line 2: the text is not valid UTF-8"):
        read(tmp_path / "bad.txt", text=(), labelled=False)
    with pytest.raises(ValueError, match="plain lines have no labels"):
        read(tmp_path / "new.txt", text=())


@pytest.mark.parametrize(("path", "text", "name"), [
    ("a.txt", None, "xc"), ("a.txt.gz", (), "lines"), ("-", (), "lines"), ("-", None, "xc"), ("a.dat", ("t",), "lines"),
    ("a.csv", ("t",), "csv"), ("a.ndjson", None, "jsonl"), ("a.svm", ("t",), "svmlight"),
])  # fmt: skip
def test_the_format_depends_on_what_is_read(path, text, name):
    assert reader_of(Source([path], text=text)).name == name


@pytest.mark.parametrize(("content", "options", "message"), [
    ('{"t": "a"}\n{"t": }\n', {}, r"line 2: invalid JSON \(character 7: Expecting value\)"),
    ('[{"t": "a"},\n{"t": "b"}]', {}, r"line 1: invalid JSON .* may be a JSON array"),
    ('[{"t": "a"}]', {}, r"line 1: expected a JSON object with one record. Got '\[.*may be a JSON array"),
    ('{"t": "a"}\n3\n', {}, r"line 2: expected a JSON object with one record. Got '3' instead"),
    ('{"t": "a"}\n\n{"t": {"x": 1}}\n', {}, r"line 3: the field 't' must be text, .*Got {'x': 1} instead"),
    ('{"t": true}', {}, r"line 1: the field 't' must be text, numbers or a list of them"),
    ('{"t": ' + "[" * 100_000, {}, "nested too deeply"),
    ('{"t": ' + "9" * 5_000 + "}", {}, r"line 1: invalid JSON"),
    ("", {}, "the file has no records"),
    ('{"t": "a", "l": [1.5]}', {"labels": "l"}, r"line 1: the field 'l' must be labels: text or integers"),
    ('{"t": "a", "l": {"x": 1}}', {"labels": "l"}, r"line 1: the field 'l' must be labels"),
    ('{"t": "a", "l": []}', {"labels": "tags"}, r"no field 'tags' \(labels\); columns: 't', 'l'"),
    ('{"t": "a", "n": "x"}', {"numeric": ("n",)}, r"line 1: the field 'n' must be a number. Got 'x'"),
    ('{"t": "a", "n": 1e999}', {"numeric": ("n",)}, r"line 1: the field 'n' must be a finite number"),
    ('{"t": "a", "c": []}', {"categorical": ("c",)}, r"line 1: the field 'c' must be text or a number"),
    ('{"t": "a", "w": null}', {"weight": "w"}, r"line 1: the field 'w' must be a weight"),
    ('{"t": "a", "q": 1.5}', {"qid": "q"}, r"line 1: the field 'q' must be a query"),
    ('{"t": "a"}', {"keep": ("id",)}, r"no field 'id' \(keep\)"),
    ('{"t": "a"}', {"labels": "t"}, "'text' parameter must not be 't', which is a labels column"),
    ('{"t": "a"}', {"text": ()}, r"the 'text' parameter \(--text\) must name the text fields; fields: 't'"),
    ('{"a": 1}\n{"a": "x"}', {"text": None}, "the field 'a' must be numbers, or text, in all records"),
])  # fmt: skip
def test_mistakes_are_named(tmp_path, content, options, message):
    (tmp_path / "r.jsonl").write_text(content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "r.jsonl", **({"text": ("t",)} | options))


def test_broken_files_are_named(tmp_path):
    (tmp_path / "r.jsonl").write_bytes(b'{"t": "a"}\n{"t": "\xff"}\n')
    with pytest.raises(ValueError, match="line 2: the text is not valid UTF-8"):
        read(tmp_path / "r.jsonl", text=("t",))
    (tmp_path / "r.jsonl.gz").write_bytes(gzip.compress(b'{"t": "a"}\n' * 1000)[:-20])
    with pytest.raises(ValueError, match="truncated gzip stream"):
        read(tmp_path / "r.jsonl.gz", text=("t",))
    (tmp_path / "x.svm").write_text("1 0:1\n")
    with pytest.raises(
        ValueError, match=r"'text' parameter requires named columns .*Got 't' for .*as svmlight"
    ):
        read(tmp_path / "x.svm", text=("t",))


def test_separators(tmp_path):
    (tmp_path / "r.csv").write_text("t,l\na,x|y\nb,x\nc,y|z\n")
    with pytest.warns(
        UserWarning, match=r"2 of 3 values of 'l' contain '\|' and none ';'.*--label-separator"
    ):
        assert read(tmp_path / "r.csv", text=("t",), labels="l").y == [["x|y"], ["x"], ["y|z"]]
    assert read(tmp_path / "r.csv", text=("t",), labels="l", label_separator="|").y == [
        ["x", "y"],
        ["x"],
        ["y", "z"],
    ]
    (tmp_path / "r.csv").write_text("t,l\na,x; y\n")
    assert read(tmp_path / "r.csv", text=("t",), labels="l", label_separator="").y == [["x; y"]]
    (tmp_path / "r.csv").write_text("t,l\na,7\nb,8\n")
    assert read(tmp_path / "r.csv", text=("t",), labels="l").y == [["7"], ["8"]]


def test_labels_of_both_types_are_text(tmp_path):
    path = write_lines(tmp_path / "r.jsonl", [{"t": "a", "l": [4003, "4003X"]}, {"t": "b", "l": 7}])
    assert read(path, text=("t",), labels="l").y == [["4003", "4003X"], ["7"]]
    path = write_lines(
        tmp_path / "r.jsonl", [{"t": "a", "l": [3, 3, None]}, {"t": "b", "l": 7.0}, {"t": "c"}]
    )
    assert read(path, text=("t",), labels="l").y == [[3], [7], []]


def test_rows_longer_than_a_block(tmp_path):
    long = "word " * 500_000
    pd.DataFrame({"t": ["a", long], "l": ["x", "y"]}).to_csv(tmp_path / "r.csv", index=False)
    rows = read(tmp_path / "r.csv", text=("t",), labels="l")
    assert [{"t": "a"}, {"t": long}] == rows.X
    write_lines(tmp_path / "r.jsonl", [{"t": long}])
    assert [{"t": long}] == read(tmp_path / "r.jsonl", text=("t",)).X


def test_csv_with_a_byte_order_mark_and_quoted_names(tmp_path):
    (tmp_path / "r.csv").write_bytes(b'\xef\xbb\xbf"the title","l"\n"a ""b"", c",NA\n,x\n')
    rows = read(tmp_path / "r.csv", text=("the title",), labels="l")
    assert rows.X == [{"the title": 'a "b", c'}, {"the title": ""}]
    assert rows.y == [["NA"], ["x"]]


def test_progress_is_reported(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(jsonl, "REPORTED", 1)
    with caplog.at_level("INFO", "sparseleaf"):
        read(write_lines(tmp_path / "r.jsonl", BOOKS), text=("title",))
    assert "reading: " in caplog.text


@settings(deadline=None, max_examples=50)
@given(st.lists(st.one_of(st.none(), st.text(), st.integers(), st.lists(st.text(), max_size=3)), min_size=1))
def test_json_texts_come_back(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("r") / "r.jsonl"
    path.write_text("".join(json.dumps({"t": value}) + "\n" for value in values))
    assert [row["t"] for row in read(path, text=("t",)).X] == [as_text(value) for value in values]


def test_lone_surrogates_are_replaced():
    assert as_text("a\ud800b") == "a\ufffdb"
    assert as_text(["a", 3, None]) == "a\n3\n"
    assert as_text(math.nan) == ""


@given(st.lists(st.text(st.characters(exclude_characters=";", exclude_categories=["Cs"])), max_size=5))
def test_labels_are_distinct_and_in_order(labels):
    expected = list(dict.fromkeys(label.strip() for label in labels if label.strip()))
    assert as_labels(";".join(labels), ";") == expected
    assert as_labels(labels, ";") == expected
