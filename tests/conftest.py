"""What all tests need."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("sparseleaf", deadline=None)  # no test depends on how busy the machine is
settings.load_profile("sparseleaf")


@pytest.fixture(autouse=True, scope="session")
def _interruptible() -> Iterator[None]:
    """Ctrl-C reaches this process and those it starts, also where the shell ignores it (``nohup pytest &``)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
