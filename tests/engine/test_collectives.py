"""Collectives over MPI are numpy's (those over sockets: tests/unit/distributed)."""

from pathlib import Path

import pytest

import collectives
from marks import first


@pytest.mark.parametrize(("n", "seeds"), first(1, [(3, (0, 25)), (2, (25, 75)), (4, (75, 125))]))
def test_collectives_are_numpys(n, seeds, mpiexec):
    done = mpiexec(n, Path(collectives.__file__), *seeds)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("agreed") == n
