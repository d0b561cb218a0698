import pytest

from sparseleaf.callbacks import EarlyStopping, TrainingState, best_tree


def state(values):
    return TrainingState(len(values), 100, 5, 10, 0.1, {"m": values})


def test_best_tree_is_the_first_of_the_highest():
    assert best_tree([1.0]) == 1
    assert best_tree([1.0, 3.0, 2.0, 3.0]) == 2


def test_early_stopping_knows_former_names():
    with pytest.warns(
        FutureWarning, match="The metric 'valid P@1' was renamed to 'valid precision@1'"
    ) as told:
        assert EarlyStopping("valid P@1", 2).metric == "valid precision@1"
    assert told[0].filename == __file__


def test_early_stopping_waits_its_rounds():
    stop = EarlyStopping("m", 2)
    assert not stop(state([5.0]))
    assert not stop(state([5.0, 4.0]))
    assert stop(state([5.0, 4.0, 5.0]))
    assert not stop(state([5.0, 4.0, 6.0]))
