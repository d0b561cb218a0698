"""Predictions stay what they were when recorded (see record.py), to the tolerance of floating point."""

from __future__ import annotations

import numpy as np
import pytest

from tests.golden.cases import CASES, all_cases
from tests.golden.record import FILE


@pytest.mark.parametrize("estimator", [function.__name__ for function in CASES])
def test_predictions_are_those_recorded(estimator):
    different = []
    with np.load(FILE) as recorded:
        for case, call in all_cases():
            if case.split()[0] != estimator:
                continue
            for name, values in call().items():
                wanted = recorded[f"{case}|{name}"]
                assert values.shape == wanted.shape, case
                if not np.allclose(values, wanted, rtol=1e-4, atol=1e-5):
                    different.append(f"{case}: {name} differ by up to {np.abs(values - wanted).max():.3g}")
    assert not different, "\n".join(different)


def test_every_case_is_recorded():
    with np.load(FILE) as recorded:
        assert {key.rpartition("|")[0] for key in recorded} == {case for case, _ in all_cases()}
