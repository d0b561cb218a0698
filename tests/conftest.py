"""What all tests need."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# no test depends on how busy the machine is, and a change does not fail for examples that are new by chance:
# pytest --hypothesis-profile explore draws those
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("fixed")


@pytest.fixture(autouse=True, scope="session")
def _interruptible() -> Iterator[None]:
    """Ctrl-C reaches this process and those it starts, also where the shell ignores it (``nohup pytest &``)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
