import pytest

from sparseleaf.boosting.losses import DENSE_LOSSES, sparse_loss


def test_sparse_losses_have_the_kernels_codes():
    assert sparse_loss("squared").code == 0
    assert sparse_loss("squared_hinge").code == 1


@pytest.mark.parametrize("name", DENSE_LOSSES)
def test_dense_losses_are_refused_with_the_estimator_to_use(name):
    with pytest.raises(ValueError, match=rf"loss='{name}'.*rows × labels.*use MultiGBDTClassifier"):
        sparse_loss(name)


def test_unknown_losses_are_refused():
    with pytest.raises(ValueError, match="loss: 'squarred' is unknown; wanted 'squared' or 'squared_hinge'"):
        sparse_loss("squarred")
