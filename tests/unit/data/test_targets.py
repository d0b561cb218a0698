import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from sparseleaf.data.targets import decode, encode_targets

TABLE = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1]])


def check(targets, table, names, kind):
    matrix = targets.matrix
    assert isinstance(matrix, sparse.csr_matrix)
    assert matrix.dtype == np.float32
    matrix.check_format(full_check=True)
    assert (matrix.data == 1).all()
    fresh = sparse.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
    assert fresh.has_canonical_format
    np.testing.assert_array_equal(matrix.toarray(), table)
    if names is None:
        assert targets.names is None
    else:
        assert targets.names.tolist() == names
    assert targets.kind == kind
    assert (targets.n_rows, targets.n_labels) == np.shape(table)


@pytest.mark.parametrize("container", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("kind", ["matrix", "array"])
def test_sparse_of_every_format(container, dtype, kind):
    Y = getattr(sparse, f"{container}_{kind}")(TABLE.astype(dtype))
    check(encode_targets(Y, 3), TABLE, None, "multilabel-sparse")


def test_sparse_zeros_are_dropped_and_repeats_merged():
    entries = (np.uint8([1, 0, 1, 0]), ([0, 0, 0, 1], [2, 1, 2, 0]))
    Y = sparse.coo_matrix(entries, shape=(2, 3))
    check(encode_targets(Y), [[0, 0, 1], [0, 0, 0]], None, "multilabel-sparse")
    rows = sparse.csr_matrix((np.ones(256, np.uint8), np.zeros(256, np.int32), [0, 256]), shape=(1, 1))
    check(encode_targets(rows), [[1]], None, "multilabel-sparse")
    assert rows.nnz == 256  # the user's own matrix is left alone
    unsorted = sparse.csr_matrix((np.float32([1, 1]), [2, 0], [0, 2]), shape=(1, 3))
    check(encode_targets(unsorted), [[1, 0, 1]], None, "multilabel-sparse")
    assert unsorted.indices.tolist() == [2, 0]


@pytest.mark.parametrize("value", [2, -1, 0.5, np.nan, np.inf])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix, sparse.lil_matrix, pd.DataFrame])
def test_other_values_are_refused(value, container):
    with pytest.raises(ValueError, match=r"Y must have values 0 and 1|Y contains (NaN|infinity)"):
        encode_targets(container(np.array([[1, 0], [0, value]])))


def test_sparse_refusals():
    with pytest.raises(ValueError, match=r"Y must have values 0 and 1 or booleans. Got dtype complex"):
        encode_targets(sparse.csr_matrix(TABLE.astype(complex)))
    line = sparse.coo_array([1, 0, 1])
    if line.ndim == 1:  # which scipy has from 1.13 on
        with pytest.raises(ValueError, match=r"Got a sparse array of shape \(3,\)"):
            encode_targets(line)
    broken = sparse.csr_matrix(TABLE)
    broken.indices[0] = 99
    with pytest.raises(ValueError, match="Y is not a valid sparse matrix"):
        encode_targets(broken)
    with pytest.raises(ValueError, match=r"Y must have 4 rows, as X. Got 3 instead"):
        encode_targets(sparse.csr_matrix(TABLE), 4)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float64])
def test_dense(dtype):
    check(encode_targets(TABLE.astype(dtype)), TABLE, None, "multilabel-indicator")
    check(encode_targets(np.asfortranarray(TABLE.astype(dtype))), TABLE, None, "multilabel-indicator")


def test_frames_name_the_labels():
    check(encode_targets(pd.DataFrame(TABLE)), TABLE, None, "multilabel-indicator")
    frame = pd.DataFrame(TABLE, columns=["z", "a", "m"])
    check(encode_targets(frame), TABLE, ["z", "a", "m"], "multilabel-indicator")
    check(encode_targets(frame.astype(bool)), TABLE, ["z", "a", "m"], "multilabel-indicator")
    check(
        encode_targets(frame.astype(pd.SparseDtype(int, 0))), TABLE, ["z", "a", "m"], "multilabel-indicator"
    )
    check(encode_targets(pd.DataFrame(TABLE, columns=[7, 5, 9])), TABLE, [7, 5, 9], "multilabel-indicator")
    check(
        encode_targets(pd.DataFrame(TABLE, columns=["a", 1, 2.5])),
        TABLE,
        ["a", "1", "2.5"],
        "multilabel-indicator",
    )
    with pytest.raises(ValueError, match=r"Y must have distinct label names. Got 'a' twice"):
        encode_targets(pd.DataFrame(TABLE, columns=["a", "b", "a"]))
    with pytest.raises(ValueError, match=r"Y must have values 0 and 1. Got str"):
        encode_targets(pd.DataFrame({"a": ["x", "y"], "b": ["x", "z"]}))


@pytest.mark.parametrize(
    "rows",
    [
        [["b", "c"], [], ["a", "b", "b"]],
        [("b", "c"), (), ("a", "b")],
        [{"b", "c"}, set(), frozenset("ab")],
        (["b", "c"], np.array([], dtype=str), np.array(["a", "b"])),
        [["b", np.str_("c")], [], ["a", "b"]],
    ],
)
def test_lists_of_names(rows):
    for Y in (rows, pd.Series(list(rows), index=[5, 6, 7])):
        targets = encode_targets(Y, 3)
        check(targets, [[0, 1, 1], [0, 0, 0], [1, 1, 0]], ["a", "b", "c"], "label-lists")
        assert all(type(name) is str for name in targets.names)


def test_lists_of_numbers_are_names():
    targets = encode_targets([[30, 7], [], [np.int64(7)]])
    check(targets, [[1, 1], [0, 0], [1, 0]], [7, 30], "label-lists")
    assert targets.names.dtype == np.int64
    objects = np.empty(2, dtype=object)
    objects[:] = [[3], [1, 3]]
    check(encode_targets(objects), [[0, 1], [1, 1]], [1, 3], "label-lists")


@pytest.mark.parametrize("kind", [int, bool, np.int64])
def test_a_table_written_as_lists(kind):
    # no row has a label twice: these are no names
    rows = [[kind(value) for value in row] for row in TABLE]
    check(encode_targets(rows), TABLE, None, "multilabel-indicator")
    check(
        encode_targets([[kind(0), kind(0)], [kind(0), kind(1)]]),
        [[0, 0], [0, 1]],
        None,
        "multilabel-indicator",
    )
    check(encode_targets([[1], [0]]), [[0, 1], [1, 0]], [0, 1], "label-lists")


def test_lists_without_any_label():
    check(encode_targets([[], []]), np.empty((2, 0)), [], "label-lists")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["a"], "bc"], "Row 1 of Y must be a list.* Got 'bc'"),
        ([["a"], None], "Row 1 of Y .* Got None"),
        ([["a"], [1]], "Label names of Y must be all str or all integers. Got int, str"),
        ([["a"], [None]], "Label names of Y .* Got NoneType, str"),
        ([[1.5], [2.0]], "Label names of Y .* Got float"),
        ([[True], [False]], "Label names of Y .* Got bool"),
        ([[2**70], [1]], "Label names of Y must fit in int64. Got 1180591620717411303424"),
        ([[["a"]], [["b"]]], r"Row 0 of Y must have label names. Got \[\['a'\]\]"),
        ([np.eye(2), ["a"]], r"Row 0 of Y must be one-dimensional. Got an array of shape \(2, 2\)"),
        (
            [[1, 0], [0, 1]],
            "Y is ambiguous: every row is a list of 0 and 1, which may be a table or label names",
        ),
    ],
)
def test_lists_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        encode_targets(rows)


@pytest.mark.parametrize(
    ("y", "names", "kind"),
    [
        (["no", "yes", "no"], ["no", "yes"], "binary"),
        ([3, 1, 2], [1, 2, 3], "multiclass"),
        (np.array([0.0, 2.0, 5.0]), [0, 2, 5], "multiclass"),
        (np.array([True, False, True]), [False, True], "binary"),
        (["one", "one", "one"], ["one"], "binary"),
        (pd.Series(["c", "a", "b"]), ["a", "b", "c"], "multiclass"),
        (pd.Series(["c", "a", "b"], dtype="category"), ["a", "b", "c"], "multiclass"),
        (np.array(["c", "a", "b"], dtype=object), ["a", "b", "c"], "multiclass"),
    ],
)
def test_one_class_per_row(y, names, kind):
    table = [[value == name for name in names] for value in list(y)]
    check(encode_targets(y, 3), table, names, kind)


def test_a_column_is_one_class_per_row():
    with pytest.warns(DataConversionWarning):
        targets = encode_targets(np.array([[0], [2], [1]]))
    check(targets, np.eye(3)[[0, 2, 1]], [0, 1, 2], "multiclass")
    with pytest.warns(DataConversionWarning):
        check(encode_targets(pd.DataFrame({"y": ["a", "b"]})), np.eye(2), ["a", "b"], "binary")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0.5, 1.5, 2.5], "Unknown label type: continuous"),
        ([0, np.nan, 1], "Y contains NaN"),
        ([0, np.inf, 1], "Y contains infinity"),
        (["a", None, "b"], "Y must have a class for every row. Got None"),
        (pd.Series(["a", np.nan, "b"]), "Y must have a class for every row. Got nan"),
        (np.array(["a", 1], dtype=object), "Classes of Y must be all str or all integers. Got int, str"),
        (np.array([3, 2.5], dtype=object), "Y"),
        (np.array([object(), object()]), "Y"),
        ([], "Got no rows instead"),
        (3, "Y must be a sparse .* Got 3"),
        (None, "Y must be a sparse .* Got None"),
        ("abc", "Y must be a sparse .* Got 'abc'"),
        ({"a": 1}, "Y must be a sparse .* Got {'a': 1}"),
        (np.zeros((2, 2, 2)), r"Got an array of shape \(2, 2, 2\)"),
        (np.array([1 + 2j, 3]), "Y must be .* Got dtype complex128"),
        (np.array([b"a", b"b"]), "Y must .* Got dtype"),
        (np.array([["a", "b"], ["c", "d"]]), "Y must .* Got dtype"),
        (np.array([["a", 1], ["c", 2]], dtype=object), "Y must have values 0 and 1. Got str"),
    ],
)
def test_refused(y, message):
    with pytest.raises(ValueError, match=message):
        encode_targets(y)


def test_targets_are_frozen():
    with pytest.raises(AttributeError):
        encode_targets(TABLE).kind = "binary"


def test_decode():
    ids = np.array([[2, 0], [1, -1]], dtype=np.int32)
    assert decode(ids, None) is ids
    assert decode(ids, np.array(["a", "b", "c"])).tolist() == [["c", "a"], ["b", None]]
    numbers = decode(ids, np.array([10, 20, 30]))
    assert numbers.dtype == object
    assert numbers.tolist() == [[30, 10], [20, None]]
    assert decode([], np.array(["a"])).shape == (0,)
    assert decode([-1], np.array([], dtype=object)).tolist() == [None]
    for bad in ([3], [-2]):
        with pytest.raises(ValueError, match=r"must be in the range \[-1, 3\). Got values in"):
            decode(bad, np.array(["a", "b", "c"]))


@pytest.mark.parametrize("Y", [
    [["a", "\ud800"], ["a"]],
    ["a", "\ud800"],
    np.array(["a", "\ud800"]),
    pd.DataFrame([[1, 0], [0, 1]], columns=pd.Index(["a", "\ud800"], dtype=object)),
], ids=["lists", "classes", "array", "frame"])  # fmt: skip
def test_names_that_no_file_could_hold(Y):
    with pytest.raises(ValueError, match=r"Y contains the label name .*lone surrogate"):
        encode_targets(Y)


def test_columns_whose_names_are_equal_as_text():
    with pytest.raises(ValueError, match=r"Y must have distinct label names. Got '1' twice"):
        encode_targets(pd.DataFrame(TABLE, columns=[1, "1", "a"]))


def test_masks_are_not_ignored():
    with pytest.raises(ValueError, match="Y is a masked array"):
        encode_targets(np.ma.masked_array(TABLE, mask=TABLE == 1))
    with pytest.raises(ValueError, match="Y is a masked array"):
        encode_targets(np.ma.masked_array([0, 1, 2], mask=[0, 1, 0]))
