"""How to start several ranks, where that can be done."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def mpiexec_path():
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


@pytest.fixture(scope="session")
def mpiexec():
    """Run a program in several ranks: ``mpiexec(n, "program.py", ...)``; its result is that of subprocess.run."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    found = mpiexec_path()
    if found is None:
        pytest.skip("there is no mpiexec")

    def run(n, *command, timeout=100, **options):
        env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),  # what this process can import, ranks can
        }
        words = [found, "-n", str(n), sys.executable, *map(str, command)]
        return subprocess.run(
            words, capture_output=True, text=True, timeout=timeout, check=False, env=env, **options
        )

    run.command = [found]
    return run
