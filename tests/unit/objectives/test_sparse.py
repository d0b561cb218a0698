import pytest

from sparseleaf.objectives import OBJECTIVES, sparse_objective


def test_sparse_losses_have_the_kernels_codes():
    assert sparse_objective("squared").code == 0
    assert sparse_objective("squared_hinge").code == 1


@pytest.mark.parametrize("name", [name for name, loss in OBJECTIVES.items() if loss.task != "sparse"])
def test_dense_losses_are_refused_with_the_estimator_to_use(name):
    with pytest.raises(ValueError, match=rf"loss='{name}'.*rows × labels.*use MultiGBDTClassifier"):
        sparse_objective(name)


def test_unknown_losses_are_refused():
    message = "The 'loss' parameter must be one of {'squared', 'squared_hinge'}. Got 'squarred' instead."
    with pytest.raises(ValueError, match=message):
        sparse_objective("squarred")
