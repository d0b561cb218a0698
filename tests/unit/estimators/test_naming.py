"""Python's own messages name the class that the user knows."""

import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import sparseleaf
from sparseleaf.estimators import ESTIMATORS

CLASSES = sorted(
    {kind for kinds in ESTIMATORS.values() for kind in kinds.values()}, key=lambda kind: kind.__name__
)


@pytest.mark.parametrize("kind", CLASSES)
def test_messages_name_the_class(kind):
    with pytest.raises(
        TypeError, match=rf"^{kind.__name__}\.__init__\(\) got an unexpected keyword argument 'tress'"
    ):
        kind(tress=3)
    with pytest.raises(
        TypeError, match=rf"^{kind.__name__}\.fit\(\) got an unexpected keyword argument 'tress'"
    ):
        kind().fit(np.zeros((2, 2)), [0, 1], tress=3)
    with pytest.raises(
        TypeError, match=rf"^{kind.__name__}\.fit\(\) missing 1 required positional argument: 'y'"
    ):
        kind().fit(np.zeros((2, 2)))


@pytest.mark.parametrize("kind", CLASSES)
def test_every_public_method_is_the_classes_own(kind):
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") and method.__module__.startswith("sparseleaf."):
            assert method.__qualname__ == f"{kind.__name__}.{name}"


@pytest.mark.parametrize("kind", CLASSES)
def test_signatures_and_docstrings_stay(kind):
    assert "n_jobs" in inspect.signature(kind).parameters
    assert "X" in inspect.signature(kind.fit).parameters
    assert inspect.getdoc(kind.fit).startswith("Fit the ")
    assert clone(kind(n_jobs=3)).n_jobs == 3


def test_copies_find_their_base_class():
    # super() of a copied method is that of where it was defined
    X, y = np.eye(8), np.arange(8) % 2
    clf = sparseleaf.LdSMClassifier(n_trees=1).fit(X, y)
    assert pickle.loads(pickle.dumps(clf)).predict(X).tolist() == clf.predict(X).tolist()
