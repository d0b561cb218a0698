"""One way from files to rows, whatever their format."""

import numpy as np
import pytest

from sparseleaf import data
from sparseleaf.data import Columns, Reader, Rows, Source, load_xc, make_xc, read, save_xc
from sparseleaf.data.reading import READERS, guess_format, register

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

FRAME = pd.DataFrame(
    {
        "a": np.array([1.5, np.nan, 3, 4], np.float32),
        "town": ["Oslo", "Bergen", "Oslo", "Turku"],
        "grade": [2, 0, 1, 1],
        "query": ["p", "p", "q", "q"],
        "w": [1.0, 2.5, 0.0, 1.0],
    }
)


@pytest.fixture
def tables(tmp_path):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    FRAME.to_csv(tmp_path / "t.tsv.gz", index=False, sep="\t")
    FRAME.to_parquet(tmp_path / "t.parquet")
    return tmp_path


@pytest.mark.parametrize("name", ["t.csv", "t.tsv.gz", "t.parquet"])
def test_tables(tables, name):
    rows = read(tables / name, target=("grade",), qid="query", weight="w")
    assert list(rows.X.columns) == ["a", "town"]
    np.testing.assert_array_equal(rows.X["a"], FRAME["a"])
    assert rows.X["town"].tolist() == FRAME["town"].tolist()
    assert rows.y.tolist() == [2, 0, 1, 1]
    assert rows.qid.tolist() == ["p", "p", "q", "q"]
    assert rows.sample_weight.tolist() == [1, 2.5, 0, 1]
    assert rows.n_rows == 4


def test_several_targets_have_names(tables):
    rows = read(tables / "t.csv", target=("w", "grade"))
    assert list(rows.y.columns) == ["w", "grade"]
    assert rows.y.to_numpy().tolist() == [[1, 2], [2.5, 0], [0, 1], [1, 1]]


def test_sparse_formats_tell_the_same(tmp_path):
    X, Y = make_xc(30, 12, 6, labels_per_row=2, nnz_per_row=4, seed=0)
    save_xc(tmp_path / "d.txt.gz", X, Y)
    lines = [
        ",".join(map(str, Y[i].indices))
        + "".join(
            f" {f}:{v:.9g}"
            for f, v in zip(X[i].sorted_indices().indices, X[i].sorted_indices().data, strict=True)
        )
        for i in range(30)
    ]
    (tmp_path / "d.svm").write_text("\n".join(lines) + "\n")
    xc, svm = read(tmp_path / "d.txt.gz"), read(tmp_path / "d.svm", features=Columns(12, None))
    np.testing.assert_array_equal(xc.X.toarray(), svm.X.toarray())
    assert [row.indices.tolist() for row in xc.y] == svm.y
    wanted = load_xc(tmp_path / "d.txt.gz")
    np.testing.assert_array_equal(xc.y.toarray(), wanted[1].toarray())


def test_files_are_one_set(tmp_path):
    X, Y = make_xc(20, 5, 4, labels_per_row=2, nnz_per_row=3)
    save_xc(tmp_path / "a.txt", X[:12], Y[:12])
    save_xc(tmp_path / "b.txt", X[12:], Y[12:])
    rows = read([tmp_path / "a.txt", tmp_path / "b.txt"])
    np.testing.assert_array_equal(rows.X.toarray(), X.toarray())
    np.testing.assert_array_equal(rows.y.toarray(), Y.toarray())
    wide = read(Source([tmp_path / "a.txt"]), features=Columns(9, None))
    assert wide.X.shape == (12, 9)
    save_xc(tmp_path / "c.txt", X[:, :3], Y)
    with pytest.raises(
        ValueError, match=r"c.txt: line 1: expected 5 features and 4 labels, as in .*, got 3 and 4"
    ):
        read([tmp_path / "a.txt", tmp_path / "c.txt"])
    with pytest.raises(ValueError, match=r"a.txt: expected at most 3 features, as in training, got 5"):
        read(tmp_path / "a.txt", features=Columns(3, None))


def test_features_are_those_of_the_model(tables):
    named = read(tables / "t.csv", target=("grade",), features=Columns(2, ["w", "a"]))
    assert list(named.X.columns) == ["w", "a"]
    FRAME[["a", "w"]].to_csv(tables / "n.csv", index=False)
    plain = read(tables / "n.csv", features=Columns(2, None))
    assert type(plain.X) is np.ndarray
    assert plain.X.dtype == np.float32
    with pytest.raises(ValueError, match="expected 3 features, as in training, got 2"):
        read(tables / "n.csv", features=Columns(3, None))


def test_rows_to_predict_need_no_targets(tables):
    FRAME[["a", "town"]].to_csv(tables / "n.csv", index=False)
    options = {"target": ("grade",), "qid": "query", "weight": "w"}
    rows = read(tables / "n.csv", **options, labelled=False)
    assert (rows.y, rows.qid, rows.sample_weight) == (None, None, None)
    with pytest.raises(ValueError, match=r"no column 'grade' \(target\)"):
        read(tables / "n.csv", **options)


def test_svmlight_features_that_training_never_saw_are_left_out(tmp_path):
    (tmp_path / "d.svm").write_text("1 0:1 5:2\n0 1:1\n")
    with pytest.warns(UserWarning, match="features above 2 are ignored"):
        rows = read(tmp_path / "d.svm", features=Columns(3, None))
    assert rows.X.toarray().tolist() == [[1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize(("name", "options", "message"), [
    ("t.csv", {"format": "xml"}, "'format' parameter must be one of {'auto', 'csv', .*}. Got 'xml'"),
    ("t.csv", {"weight": "town"}, "the weight column 'town' must be numeric"),
    ("t.csv", {"weight": "a"}, "row 2: missing value in 'a'; every row must have a weight"),
    ("t.csv", {"weight": "grade", "target": ("grade",)}, "'weight' parameter must not be 'grade', which is a target"),
    ("t.csv", {"target": ("grade", "grade")}, "'target' parameter must have distinct columns. Got 'grade' twice"),
    ("d.svm", {"target": ("y",)}, "'target' parameter requires named columns .* Got 'y' for .*d.svm, .* as svmlight"),
    ("d.svm", {"weight": "w"}, "'weight' parameter requires named columns .* Got 'w'"),
    ("d.dat", {}, r"read as XC text; set the format to read another"),
])  # fmt: skip
def test_mistakes_are_named(tables, name, options, message):
    (tables / "d.svm").write_text("1 0:1\n")
    (tables / "d.dat").write_text("1 0:1\n")
    with pytest.raises(ValueError, match=message):
        read(tables / name, **options)


def test_files_of_two_formats_no_file_and_standard_input_twice(tables):
    with pytest.raises(ValueError, match=r"must have the same format. Got parquet for .* and csv for"):
        read([tables / "t.csv", tables / "t.parquet"])
    with pytest.raises(ValueError, match="At least one file is required"):
        read([])
    with pytest.raises(ValueError, match=r"Standard input .* must be given at most once"):
        read(["-", "-"])


def test_a_format_is_one_class(tmp_path, monkeypatch):
    monkeypatch.setattr("sparseleaf.data.reading.READERS", dict(READERS))
    monkeypatch.setattr(data, "READERS", dict(READERS))

    class Numbers(Reader):
        name = "numbers"
        suffixes = (".num",)

        def read(self, source):
            return Rows(np.loadtxt(source.paths[0], np.float32, ndmin=2), None)

    register(Numbers)
    (tmp_path / "d.num").write_text("1 2\n3 4\n")
    assert guess_format("d.num.gz") == "numbers"
    assert read(tmp_path / "d.num").X.tolist() == [[1, 2], [3, 4]]
