from __future__ import annotations

import pytest

from cpredictor import COMPILER, SANITIZED, can_sanitize, compile_predictor


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The C predictor with sanitizers, where there are any."""
    if COMPILER is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("predictor")
    return compile_predictor(folder, SANITIZED if can_sanitize(folder) else [])
