from __future__ import annotations

import datetime
import gzip
import io
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparseleaf.data import load_table, make_xc, save_xc
from sparseleaf.data.reading import guess_format

CSV = "age,colour,height,member,price\n31,red,1.5,true,10\n,blue,2,false,20\n40,,NA,true,30\n"


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        content = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


@pytest.fixture
def parquet(tmp_path):
    def parquet(columns, name="t.parquet"):
        pq.write_table(pa.table(columns), tmp_path / name)
        return tmp_path / name

    return parquet


def refused(path, *arguments, **options):
    """The one-line error; it has to name the file."""
    with pytest.raises(ValueError) as caught:
        load_table(path, *arguments, **options)
    first = path if not isinstance(path, list) else path[-1]
    assert str(first) in str(caught.value)
    return str(caught.value)


# --- what comes out


def check_small(table):
    X = table.X
    assert list(X.columns) == ["age", "colour", "height", "member"]
    assert [str(kind) for kind in X.dtypes] == ["float32", "category", "float32", "float32"]
    np.testing.assert_array_equal(X["age"], np.float32([31, np.nan, 40]))
    np.testing.assert_array_equal(X["height"], np.float32([1.5, 2, np.nan]))
    np.testing.assert_array_equal(X["member"], np.float32([1, 0, 1]))
    assert X["colour"].cat.categories.tolist() == ["blue", "red"]
    assert X["colour"].cat.codes.tolist() == [1, 0, -1]
    assert table.y.tolist() == [10, 20, 30]
    assert table.y.dtype == np.int64
    assert table.target_names == ("price",)
    assert table.qid is None


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "T.CSV"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv(write, name, delimiter):
    check_small(load_table(write(name, CSV.replace(",", delimiter)), "price"))


def test_tsv_is_split_at_tabs_whatever_the_names_hold(write):
    table = load_table(write("t.tsv", "a, b, c\ty\n1\t2\n"), "y")
    assert list(table.X.columns) == ["a, b, c"]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_endings_byte_order_mark_blank_lines_and_no_last_newline(write, ending):
    text = "\ufeff" + ending.join(["a,y", "1,2", "", "3,4"])
    table = load_table(write("t.csv", text), "y")
    assert table.X["a"].tolist() == [1, 3]


def test_quotes_protect_delimiters_and_newlines(write):
    text = '"name; first, last";"y"\n"a;b\nc""d";1\n"plain";2\n'
    table = load_table(write("t.csv", text), "y")
    assert table.X["name; first, last"].tolist() == ['a;b\nc"d', "plain"]


def test_an_empty_line_of_one_column_is_a_missing_value(write):
    found = load_table(write("t.csv", "a\n1\n\n3\n")).X["a"]
    np.testing.assert_array_equal(found, np.float32([1, np.nan, 3]))


def test_gzip_is_known_by_content(write, tmp_path):
    write("t.csv.gz", CSV).rename(tmp_path / "u.csv")
    check_small(load_table(tmp_path / "u.csv", "price"))


def test_parquet(parquet):
    columns = pd.read_csv(io.StringIO(CSV))
    check_small(load_table(parquet(pa.Table.from_pandas(columns)), "price"))


def test_parquet_types(parquet):
    days = pa.array([1, 2, None], pa.int8())
    table = load_table(
        parquet(
            {
                "small": days,
                "decimal": pa.array([1, None, 3]).cast(pa.decimal128(30, 2)),
                "category": pa.array(["b", "a", None]).dictionary_encode(),
                "large": pa.array(["x", "y", "x"], pa.large_string()),
                "nothing": pa.nulls(3),
                "flag": pa.array([True, None, False]),
            }
        )
    )
    X = table.X
    assert table.y is None
    for name, wanted in {
        "small": [1, 2, np.nan],
        "decimal": [1, np.nan, 3],
        "nothing": [np.nan] * 3,
        "flag": [1, np.nan, 0],
    }.items():
        assert X[name].dtype == np.float32
        np.testing.assert_array_equal(X[name], np.float32(wanted))
    assert X["category"].cat.categories.tolist() == ["a", "b"]
    assert X["category"].cat.codes.tolist() == [1, 0, -1]
    assert X["large"].tolist() == ["x", "y", "x"]


def test_the_index_that_pandas_wrote_is_no_feature(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]}, index=pd.Index([7, 9], name="id"))
    frame.to_parquet(tmp_path / "t.parquet")
    assert list(load_table(tmp_path / "t.parquet", "y").X.columns) == ["a"]


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(-(2**24), 2**24)),
            st.one_of(st.none(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
            st.sampled_from([None, "a", "b;c", "d,e", 'f"g', "h\ni", "ü"]),
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from([",", ";", "\t"]),
)
def test_what_pandas_writes_comes_back(tmp_path_factory, rows, delimiter):
    frame = pd.DataFrame(rows, columns=["i", "f", "t"]).assign(y=1)
    path = tmp_path_factory.mktemp("t") / "t.csv"
    frame.to_csv(path, sep=delimiter, index=False)
    X = load_table(path, "y").X
    for name in ("i", "f"):
        np.testing.assert_array_equal(X[name], frame[name].astype(np.float32))
    wanted = [value if isinstance(value, str) else None for value in frame["t"]]
    if any(wanted):
        assert [value if isinstance(value, str) else None for value in X["t"]] == wanted


# --- targets


@pytest.mark.parametrize(
    ("column", "wanted", "kind"),
    [
        ("2\n1\n2", [2, 1, 2], "i"),
        ("2.5\n1\n2", [2.5, 1, 2], "f"),
        ("b\na\nb", ["b", "a", "b"], "O"),
        ("true\nfalse\ntrue", [True, False, True], "b"),
    ],
)
def test_one_target_is_one_dimensional(write, column, wanted, kind):
    rows = "\n".join(f"{i},{value}" for i, value in enumerate(column.split("\n")))
    y = load_table(write("t.csv", f"x,y\n{rows}\n"), ["y"]).y
    assert y.tolist() == wanted
    assert y.dtype.kind == kind


def test_a_number_that_was_not_measured_is_nan(write):
    y = load_table(write("t.csv", "x,y\n1,5\n2,\n"), "y").y
    np.testing.assert_array_equal(y, [5, np.nan])


def test_several_targets_in_the_order_asked_for(write):
    table = load_table(write("t.csv", "y1,x,y2\n1,7,true\n,8,false\n"), ("y2", "y1"))
    assert table.target_names == ("y2", "y1")
    assert list(table.X.columns) == ["x"]
    np.testing.assert_array_equal(table.y, [[1, 1], [0, np.nan]])
    assert table.y.dtype == np.float64


def test_rows_to_predict_need_no_target_and_do_not_look_at_it(write):
    without = write("a.csv", "x\n1\n2\n")
    assert load_table(without, "y", require_target=False).y is None
    whatever = write("b.csv", "y,x\n2020-01-01,3\n2020-01-02,4\n")
    both = load_table([without, whatever], "y", require_target=False)
    assert both.X["x"].tolist() == [1, 2, 3, 4]
    assert both.y is None


# --- several files


def test_levels_are_united_over_files(write):
    paths = [write("a.csv", "c,y\nz,1\nb,2\n"), write("b.csv", "c,y\na,3\nz,4\n")]
    table = load_table(paths, "y")
    assert table.X["c"].cat.categories.tolist() == ["a", "b", "z"]
    assert table.X["c"].tolist() == ["z", "b", "a", "z"]
    assert table.y.tolist() == [1, 2, 3, 4]


def test_files_may_differ_in_what_is_missing_and_in_kinds_of_number(write):
    paths = [
        write("a.csv", "n,t,y\n1,,1\n"),
        write("b.csv", "n,t,y\n2.5,x,2\n"),
        write("c.csv", "n,t,y\n,z,0.5\n"),
    ]
    table = load_table(paths, "y")
    np.testing.assert_array_equal(table.X["n"], np.float32([1, 2.5, np.nan]))
    assert table.X["t"].cat.codes.tolist() == [-1, 0, 1]
    assert table.y.tolist() == [1, 2, 0.5]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("b,a,y", "expected 'a' as feature 1"),
        ("a,c,y", "expected 'b' as feature 2"),
        ("a,y", "expected 2 features"),
        ("a,b,c,y", "the first difference is 'c'"),
    ],
)
def test_files_of_different_columns_are_refused(write, header, said):
    first = write("a.csv", "a,b,y\n1,2,3\n")
    second = write("b.csv", header + "\n" + ",".join("1" for _ in header.split(",")) + "\n")
    error = refused([first, second], "y")
    assert said in error
    assert str(first) in error


def test_numbers_here_and_text_there_are_refused(write):
    paths = [write("a.csv", "a,y\n1,2\n"), write("b.csv", "a,y\nx,2\n")]
    assert "the column 'a' contains text, but numbers in" in refused(paths, "y")


# --- categories


def test_columns_named_categorical_are_text_as_written(write, parquet):
    text = "zip,day,y\n007,2020-01-01,1\n10115,2020-01-02,2\n,,3\n"
    X = load_table(write("t.csv", text), "y", categorical=["zip", "day"]).X
    assert X["zip"].cat.categories.tolist() == ["007", "10115"]
    assert X["day"].cat.categories.tolist() == ["2020-01-01", "2020-01-02"]
    assert X["zip"].cat.codes.tolist() == [0, 1, -1]
    X = load_table(parquet({"zip": [7, None, 10]}), categorical="zip").X
    assert X["zip"].cat.categories.tolist() == ["10", "7"]


@pytest.mark.parametrize("n", [255, 256])
def test_text_of_too_many_values_is_refused(write, n):
    path = write("t.csv", "words,y\n" + "".join(f"w{i},1\n" for i in range(n)))
    if n == 255:
        assert len(load_table(path, "y").X["words"].cat.categories) == 255
        return
    error = refused(path, "y")
    assert "Got 256, such as 'w0'" in error
    assert "the text column 'words' must have at most 255 distinct values" in error
    assert len(load_table(path, "y", max_categories=None).X["words"].cat.categories) == 256


def test_one_word_among_many_numbers_is_shown(write):
    path = write("t.csv", "n,y\n" + "".join(f"{i},1\n" for i in range(300)) + "oops,1\n")
    assert "such as 'oops'" in refused(path, "y")


def test_decimal_commas_are_refused_not_taken_for_categories(write):
    path = write("t.csv", "n;y\n1,5;1\n2;1\n")
    assert "'n' contains numbers with a decimal comma, such as '1,5'" in refused(path, "y")
    assert load_table(path, "y", categorical="n").X["n"].tolist() == ["1,5", "2"]


# --- what is refused


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        (" \n\n", "the file is empty"),
        ("a,b,y\n", "the file has column names but no rows"),
        ("a,b,y", "the file has column names but no rows"),
        ("a,b,y\n1,2,3\n\n4,5\n", "row 2: expected 3 values, got 2"),
        (b"a,b,y\n1,2,3\n4,\xff\n", "row 2: expected 3 values, got 2"),
        ("a,b,y\n1,2,3,4\n", "row 1: expected 3 values, got 4"),
        ("a,b,Y\n1,2,3\n", "no column 'y' (target); did you mean"),
        ("a,b,target\n1,2,3\n", "columns: 'a', 'b', 'target'"),
        ("y,a,y\n1,2,3\n", "duplicate column 'y'"),
        ("a,y,a\n1,2,3\n", "duplicate column 'a'"),
        (",a,y\n0,2,3\n", "column 1 has no name"),
        ("y\n1\n", "the file has no feature columns"),
        ("a,y\n1,2\ninf,3\n", "row 2: 'a' must be finite"),
        ("a,y\n1,2\n-1e39,3\n", "row 2: 'a' must be finite in float32. Got -1e+39"),
        ("a,y\n1,inf\n", "row 1: 'y' must be finite. Got inf"),
        ("a,y\n2020-01-01,1\n", "the column 'a' contains dates or times"),
        ("a,y\n2020-01-01 10:00,1\n", "the column 'a' contains dates or times"),
        ("a,y\n1,2020-01-01\n", "the column 'y' contains dates or times"),
        ("a,y\n1,b\n2,\n", "row 2: missing value in the target 'y'"),
        ('a,y\n"1,2\n3,4\n', "unclosed quotation mark"),
        (b"a,y\n\xff\xfe,2\n", "the column 'a' must be numbers or UTF-8 text"),
        (b"\xff,y\n1,2\n", "the column names are not valid UTF-8"),
        ("a,y\n1,2\n".encode("utf-16-le"), "the file contains zero bytes"),
    ],
)
def test_bad_csv(write, text, said):
    assert said in refused(write("t.csv", text), "y")


def test_bad_rows_far_down_are_counted(write):
    lines = [f"{i},{i},{i}" for i in range(300_000)]
    lines[250_000] += ",1"
    assert "row 250001: expected 3 values, got 4" in refused(
        write("t.csv", "a,b,y\n" + "\n".join(lines)), "y"
    )


def test_a_kind_that_changes_far_down_is_still_one_column(write):
    rows = "".join(f"{i},1\n" for i in range(300_000)) + "0.5,2\n"
    assert load_table(write("t.csv", "a,y\n" + rows), "y").X["a"].iloc[-1] == 0.5


def test_rows_of_many_columns(write):
    n = 5_000  # and of more bytes than the reader's usual block
    text = ",".join(f"c{i}" for i in range(n)) + ",y\n" + (f"0.{'3' * 300}," * n + "1\n") * 3
    assert load_table(write("t.csv", text), "y").X.shape == (3, n)


def test_a_damaged_gzip_stream(write, tmp_path):
    path = write("t.csv.gz", CSV)
    path.write_bytes(path.read_bytes()[:-9])
    assert "truncated gzip stream" in refused(path, "price")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"hello", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_bad_parquet(write, content):
    assert "invalid Parquet file" in refused(write("t.parquet", content), "y")


def test_truncated_parquet(parquet):
    path = parquet({"a": [1, 2], "y": [1, 2]})
    path.write_bytes(path.read_bytes()[:-20])
    assert "invalid Parquet file" in refused(path, "y")


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([[1, 2]]), "the column 'a' must be numbers or text. Got list"),
        (pa.array([b"\x00"]), "the column 'a' must be numbers or UTF-8 text"),
        (pa.array([datetime.datetime(2020, 1, 1)]), "the column 'a' contains dates"),
        (pa.array([datetime.timedelta(1)]), "the column 'a' contains dates or times"),
    ],
)
def test_parquet_columns_that_are_neither_numbers_nor_text(parquet, column, said):
    assert said in refused(parquet({"a": column, "y": [1]}), "y")


def test_parquet_without_rows(parquet):
    assert "no rows" in refused(parquet({"a": pa.array([], pa.int64()), "y": pa.array([], pa.int64())}), "y")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"target": ["price", "price"]}, "'target' parameter must have distinct columns. Got 'price' twice"),
        ({"target": ["price", "colour"]}, "the target 'colour' contains text"),
        ({"target": ["prize"]}, "did you mean 'price'?"),
        ({"target": [3]}, "'target' parameter must be column names. Got 3"),
        ({"target": "price", "categorical": "pric"}, "no column 'pric' (categorical); did you mean"),
        (
            {"target": "price", "categorical": "price"},
            "'categorical' parameter must not be 'price', which is a target",
        ),
        ({"target": "price", "qid": "price"}, "'qid' parameter must not be 'price', which is a target"),
        ({"target": "price", "qid": "heigth"}, "no column 'heigth' (qid); did you mean 'height'"),
        ({"target": "price", "qid": "age"}, "row 2: missing value in 'age'; every row must have a query"),
        (
            {"target": "price", "qid": "colour"},
            "row 3: missing value in 'colour'; every row must have a query",
        ),
        ({"format": "excel"}, "'format' parameter must be one of {'auto', 'csv'"),
    ],
)
def test_bad_arguments(write, arguments, said):
    with pytest.raises(ValueError, match=r"target|categorical|format|query|qid") as caught:
        load_table(write("t.csv", CSV), **arguments)
    assert said in str(caught.value)


def test_no_files_and_missing_files(tmp_path):
    with pytest.raises(ValueError, match="At least one file is required"):
        load_table([])
    for suffix in ("csv", "parquet", "svm", "txt"):
        with pytest.raises(FileNotFoundError, match=f"nowhere.{suffix}"):
            load_table(tmp_path / f"nowhere.{suffix}")


@pytest.mark.parametrize("package", ["pandas", "pyarrow"])
@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_a_missing_package_is_named_with_the_extra(write, monkeypatch, package, format_):
    path = write("t.csv", CSV)
    if format_ == "parquet":
        pq.write_table(pa.table({"a": [1], "price": [1]}), path)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"requires {package}. .*sparseleaf\[table\]"):
        load_table(path, "price", format=format_)


# --- formats


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("a.csv", "csv"),
        ("a.b.CSV.GZ", "csv"),
        ("a.tsv", "csv"),
        ("a.parquet", "parquet"),
        ("a.svm", "svmlight"),
        ("a.svmlight.gz", "svmlight"),
        ("a.libsvm", "svmlight"),
        ("a.txt.gz", "xc"),
        ("a.gz", None),
        ("a", None),
        ("csv", None),
        ("a.xlsx", None),
    ],
)
def test_guess_format(name, wanted):
    assert guess_format(name) == wanted


def test_format_overrides_the_name(write):
    check_small(load_table(write("t.txt", CSV), "price", format="csv"))


def test_a_name_that_does_not_tell_needs_a_format(write):
    assert "whose suffix is unknown" in refused(write("t.dat", CSV), "price")


def test_files_of_several_formats_are_refused(write):
    assert "must have the same format. Got svmlight for" in refused(
        [write("a.csv", CSV), write("b.svm", "1 1:1")]
    )


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["b", "a", "b"], ["b", "a", "b"]),
        ([2**53 + 1, 2**53 + 2, 2**53 + 1], [2**53 + 1, 2**53 + 2, 2**53 + 1]),
        (["0.25", "-1", "3"], [0.25, -1, 3]),
    ],
)
def test_queries_are_read_as_they_are(write, cells, wanted):
    text = "q,a,y\n" + "".join(f"{cell},1,{i}\n" for i, cell in enumerate(cells))
    table = load_table(write("t.csv", text), "y", qid="q")
    assert table.qid.tolist() == wanted
    assert list(table.X.columns) == ["a"]
    without = load_table(write("n.csv", "a,y\n1,2\n"), "y", qid="q", require_target=False)
    assert without.qid is None


def test_sparse_formats(tmp_path, write):
    X, Y = make_xc(20, 5, 4, labels_per_row=2, nnz_per_row=3)
    save_xc(tmp_path / "t.txt.gz", X, Y)
    table = load_table(tmp_path / "t.txt.gz")
    assert (table.X != X).nnz == 0
    assert (table.y != Y).nnz == 0
    table = load_table(write("t.svm", "1 qid:3 1:2.5\n2 qid:4 2:1\n"))
    assert table.X.toarray().tolist() == [[0, 2.5, 0], [0, 0, 1]]
    assert table.y.tolist() == [1, 2]
    assert table.qid.tolist() == [3, 4]
    for path in ("t.txt.gz", "t.svm"):
        for argument in ("target", "categorical", "qid"):
            assert f"The '{argument}' parameter requires named columns" in refused(
                tmp_path / path, **{argument: "y"}
            )
