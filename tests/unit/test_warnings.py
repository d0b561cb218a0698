"""Warnings name the user's line."""

import warnings

import numpy as np
import pytest

from sparseleaf import MultiGBDTRegressor, SparseGBDTClassifier
from sparseleaf._warnings import warn
from sparseleaf.metrics import evaluate, scorers


def test_a_call_from_outside_is_named():
    with pytest.warns(UserWarning, match="this") as told:
        warn("this")
    assert told[0].filename == __file__


@pytest.mark.parametrize("act", [
    lambda: SparseGBDTClassifier(min_gain=1.0),
    lambda: SparseGBDTClassifier().set_params(min_gain=1.0),
    lambda: MultiGBDTRegressor().leaf_outputs,
    lambda: setattr(MultiGBDTRegressor(), "leaf_outputs", 2),
    lambda: scorers["P@1"],
    lambda: evaluate(np.eye(2), [[0], [1]], ks=(1,))["P@1"],
    lambda: MultiGBDTRegressor(n_trees=1, leaf_labels=1, advanced={"split": "reduced"}).fit(
        np.arange(60.0)[:, None], np.zeros((60, 2))
    ),
])  # fmt: skip
def test_former_names_are_warned_of_where_they_are_used(act):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        act()
    assert [(one.filename, one.category) for one in told] == [(__file__, FutureWarning)]
