"""Marks of parametrised tests."""

from __future__ import annotations

import pytest


def first(n, cases):
    """The first ``n`` cases are run always, the others with the slow tests."""
    cases = list(cases)
    slow = [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases[n:]
    ]
    return [*cases[:n], *slow]
