"""Search spaces: of declared parameters, within their ranges, around the defaults."""

from __future__ import annotations

import optuna
import pytest

from sparseleaf import TextVectorizer
from sparseleaf.estimators import ESTIMATORS
from sparseleaf.features.settings import RULES
from sparseleaf.tuning import TUNABLE, Choice, Range
from sparseleaf.tuning.spaces import TEXTS, VECTORIZER

SPACES = [
    (kind, name, dimension)
    for method, tunable in TUNABLE.items()
    for kind in ESTIMATORS[method].values()
    for space in (tunable.space, tunable.many_outputs, tunable.bagged, tunable.bagged_outputs)
    for name, dimension in space.items()
]


@pytest.mark.parametrize(("kind", "name", "dimension"), SPACES)
def test_dimensions_are_of_declared_parameters(kind, name, dimension):
    parameter = kind.parameter_table[name]
    assert all(value in parameter.values for value in dimension.ends)
    # so that trials learn from the default one; "auto" depends on the number of trees and is left out of it
    assert parameter.default == "auto" or parameter.default in dimension


@pytest.mark.parametrize(("name", "dimension"), TEXTS.items())
def test_dimensions_of_texts_are_of_the_vectorizer(name, dimension):
    nested = name.removeprefix(VECTORIZER)
    assert all(RULES[nested].valid(value) for value in dimension.ends)
    assert TextVectorizer().get_params()[nested] in dimension


def test_rungs_grow_by_three_up_to_the_maximum():
    assert TUNABLE["forest"].rungs() == [6, 17, 50]
    assert TUNABLE["forest"].rungs(slowness=2.0) == [6, 17, 50]  # not boosted
    assert TUNABLE["gbdt-mo"].rungs(slowness=2.0) == [90, 268, 800]
    assert TUNABLE["gbdt-mo"].rungs(limit=9) == [1, 3, 9]
    assert TUNABLE["gbdt-mo"].rungs(slowness=5.0, limit=9) == [5, 9]


def test_values_survive_a_study():
    study = optuna.create_study(storage=optuna.storages.InMemoryStorage())
    dimensions = {
        "pair": Choice([(1, 1), (1, 2)]),
        "mixed": Choice([None, "linear", True, 3]),
        "whole": Range(1, 100, log=True),
        "fraction": Range(0.5, 1.0),
    }
    for _ in range(20):
        trial = study.ask()
        values = {name: one.suggest(trial, name) for name, one in dimensions.items()}
        study.tell(trial, 0.0)
        stored = study.trials[-1].params
        assert {name: one.restored(stored[name]) for name, one in dimensions.items()} == values
        assert all(values[name] in one for name, one in dimensions.items())
        assert isinstance(values["whole"], int)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Range(2, 1),
        lambda: Range(0.0, 1.0, log=True),
        lambda: Range(0, float("inf")),
        lambda: Choice([]),
        lambda: Choice("text"),
        lambda: Choice([1, 1]),
    ],
)
def test_invalid_dimensions(make):
    with pytest.raises(ValueError, match="must"):
        make()


def test_membership_distinguishes_types():
    assert 1 not in Choice([True, False])
    assert True not in Range(0, 5)
    assert 2.5 not in Range(0, 5)
    assert 2 in Range(0.0, 5.0)
