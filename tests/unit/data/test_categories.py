"""Categories of features: names to numbers and back to the same numbers at prediction."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparseleaf.data.categories import MAX_CATEGORIES, encode_categories, find_categories

pd = pytest.importorskip("pandas")


def both(X, wanted="auto", other=None):
    categories = find_categories(X, wanted)
    return categories, np.asarray(encode_categories(X if other is None else other, categories), np.float64)


def frame():
    return pd.DataFrame(
        {
            "size": pd.Categorical(["small", "large", None, "small"], ["small", "middle", "large"]),
            "price": [1.5, 2.5, np.nan, 4.0],
            "town": ["Oslo", "Bergen", "Oslo", None],
        }
    )


def test_auto_takes_categorical_and_text_columns():
    categories, encoded = both(frame())
    assert categories == {0: ["small", "middle", "large"], 2: ["Bergen", "Oslo"]}  # text in order of name
    np.testing.assert_array_equal(encoded[:, 0], [0, 2, np.nan, 0])
    np.testing.assert_array_equal(encoded[:, 1], [1.5, 2.5, np.nan, 4])
    np.testing.assert_array_equal(encoded[:, 2], [1, 0, 1, np.nan])


def test_a_frame_stays_a_frame_with_its_columns():
    encoded = encode_categories(frame(), find_categories(frame(), "auto"))
    assert list(encoded.columns) == ["size", "price", "town"]


def test_nothing_to_encode_is_left_alone():
    X = np.ones((3, 2))
    assert find_categories(X, "auto") == {}
    assert find_categories(frame(), None) == {}
    assert encode_categories(X, {}) is X


@pytest.mark.parametrize(
    "wanted", [[0, 2], ["size", "town"], [True, False, True], np.array([2, 0]), ("town", 0)]
)
def test_columns_by_number_name_or_mask(wanted):
    assert sorted(find_categories(frame(), wanted)) == [0, 2]


def test_numbers_by_index():
    X = np.array([[30.0, 1], [10, 2], [np.nan, 3], [30, 4], [2.5, 5]])
    categories, encoded = both(X, [0])
    assert categories == {0: [2.5, 10, 30]}
    np.testing.assert_array_equal(encoded[:, 0], [2, 1, np.nan, 2, 0])
    np.testing.assert_array_equal(encoded[:, 1], X[:, 1])


def test_integers_and_floats_of_the_same_value_are_one_category():
    categories, _ = both(np.array([[3], [7], [3]]), [0])
    encoded = encode_categories(np.array([[7.0], [3.0], [7.5]]), categories)
    np.testing.assert_array_equal(encoded[:, 0], [1, 0, np.nan])


def test_large_integers_stay_apart():
    big = np.array([[2**53], [2**53 + 1], [2**53]])
    categories, encoded = both(big, [0])
    assert categories == {0: [2**53, 2**53 + 1]}
    assert encoded[:, 0].tolist() == [0, 1, 0]


@pytest.mark.parametrize("dtype", [object, "boolean", "bool"])
def test_truth_values(dtype):
    X = pd.DataFrame({"a": pd.Series([True, False, True], dtype=dtype)})
    categories, encoded = both(X, [0])
    assert categories == {0: ["False", "True"]}
    assert encoded[:, 0].tolist() == [1, 0, 1]


def test_names_that_look_the_same_are_one():
    """The model file could not tell them apart."""
    categories, encoded = both(pd.DataFrame({"a": [True, "True", "no"]}))
    assert categories == {0: ["True", "no"]}
    assert encoded[:, 0].tolist() == [0, 0, 1]


def test_intervals_and_dates_are_kept_by_their_text():
    cut = pd.DataFrame({"a": pd.cut([1.0, 5.0, 9.0, np.nan], [0, 3, 6, 10])})
    categories, encoded = both(cut)
    assert categories == {0: ["(0, 3]", "(3, 6]", "(6, 10]"]}
    np.testing.assert_array_equal(encoded[:, 0], [0, 1, 2, np.nan])
    days = pd.DataFrame({"a": pd.Categorical(pd.to_datetime(["2020-01-02", "2020-01-01"]))})
    assert both(days)[1][:, 0].tolist() == [1, 0]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
@pytest.mark.parametrize("as_array", [False, True])
def test_what_is_missing_stays_missing(missing, as_array):
    X = pd.DataFrame({"a": pd.Series(["x", missing, "y", missing], dtype=object)})
    X = X.to_numpy() if as_array else X
    categories, encoded = both(X, [0])
    assert categories == {0: ["x", "y"]}
    np.testing.assert_array_equal(encoded[:, 0], [0, np.nan, 1, np.nan])


def test_strings_of_pandas():
    X = pd.DataFrame({"a": pd.array(["x", None, "y"], dtype="string")})
    categories, encoded = both(X)
    assert categories == {0: ["x", "y"]}
    np.testing.assert_array_equal(encoded[:, 0], [0, np.nan, 1])


def test_what_training_did_not_know_is_missing():
    categories, encoded = both(
        frame(),
        other=pd.DataFrame({
            "size": pd.Categorical(["huge", "large"]), "price": [1, 2], "town": ["Rome", "Oslo"]
        }),
    )  # fmt: skip
    assert len(categories) == 2
    np.testing.assert_array_equal(encoded, [[np.nan, 1, np.nan], [2, 2, 1]])


def test_the_order_of_categories_is_that_of_training():
    """Another frame's codes differ; names do not."""
    other = pd.DataFrame(
        {"size": pd.Categorical(["large", "small"], ["large", "small"]), "price": 0.0, "town": "Oslo"}
    )
    _, encoded = both(frame(), other=other)
    assert encoded[:, 0].tolist() == [2, 0]


def test_a_column_that_is_all_missing_has_no_categories():
    categories, encoded = both(np.full((3, 1), np.nan), [0])
    assert categories == {0: []}
    assert np.isnan(encoded).all()


def test_as_many_as_fit_and_one_more():
    X = np.arange(MAX_CATEGORIES + 1.0)[:, None]
    assert len(find_categories(X[:-1], [0])[0]) == MAX_CATEGORIES
    with pytest.raises(ValueError, match=r"Feature 0 must have at most 255 categories. Got 256"):
        find_categories(X, [0])
    with pytest.raises(ValueError, match=r"Feature 'name' must have at most 255 categories. Got 256"):
        find_categories(pd.DataFrame({"name": [str(i) for i in range(256)]}), "auto")


@pytest.mark.parametrize(("wanted", "match"), [
    ("all", "be 'auto', None, or a sequence of column names, column numbers or booleans. Got 'all'"),
    ([3], "have column names of X, or numbers below 3. Got 3"),
    ([-1], ".* Got -1"),
    (["age"], ".* Got 'age'"),
    ([1.5], ".* Got 1.5"),
    ([True, False], ".* Got True"),
])  # fmt: skip
def test_columns_that_are_not_there_are_refused(wanted, match):
    with pytest.raises(ValueError, match=f"The 'categorical_features' parameter must {match} instead"):
        find_categories(frame(), wanted)


def test_sparse_rows_have_no_categories():
    X = sp.csr_matrix(np.eye(3))
    assert find_categories(X, "auto") == {}
    with pytest.raises(ValueError, match="Got a sparse matrix instead"):
        find_categories(X, [0])
    with pytest.raises(ValueError, match="Got a sparse matrix instead"):
        encode_categories(X, {0: [1]})


def test_text_where_training_had_numbers_is_refused():
    categories = find_categories(frame(), "auto")
    other = frame().assign(price="cheap")
    with pytest.raises(ValueError, match="Feature 'price' must be numeric, as it is not one of the categ"):
        encode_categories(other, categories)


def test_named_columns_add_to_those_of_text():
    table = pd.DataFrame({"k": [3, 5, 3], "t": ["u", "v", "u"], "x": [0.5, 1.5, 2.5]})
    for named in (["k"], [0], np.array(["k"])):
        assert find_categories(table, named) == {0: [3, 5], 1: ["u", "v"]}
    # a mask says it for every column
    assert find_categories(table, [True, False, False]) == {0: [3, 5]}
    assert find_categories(table, None) == {}
    with pytest.raises(ValueError, match="Feature 't' must be numeric, as it is not one of the categorical"):
        encode_categories(table, find_categories(table, [True, False, False]))
