"""What ranks compare before they train; that they do is tested in several processes."""

import pytest

from sparseleaf import MultiGBDTRegressor
from sparseleaf.distributed.agreement import describe_training, refuse_differences


def described(data=None, **settings):
    return describe_training(
        MultiGBDTRegressor.from_settings(settings), {"layout": "rows"}, data or {"n_features": 3}
    )


def test_the_same_trainings_agree():
    first, other = described(l2=1.0), described(l2=1, n_jobs=7, verbose=2)
    assert first == other
    assert described(monotone_constraints={0: 1}) == described(monotone_constraints={"0": 1})
    refuse_differences([first, other])


def test_every_difference_is_named_with_its_rank():
    with pytest.raises(ValueError, match="must train with the same") as refused:
        refuse_differences([described(), described(max_depth=3), described({"n_features": 4})])
    assert "rank 1 has max_depth 3, rank 0 has " in str(refused.value)
    assert str(refused.value).endswith("; rank 2 has n_features 4, rank 0 has 3.")


def test_a_large_job_is_not_told_of_all_ranks():
    with pytest.raises(ValueError, match=r"rank 8 has l2 2\.0, rank 0 has 5\.0; and 991 more\.$"):
        refuse_differences([described(l2=5.0), *[described(l2=2.0)] * 999])
