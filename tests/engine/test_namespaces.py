"""Several hosts, as far as the network can tell: ranks in network namespaces of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "namespaces.sh"


def may_make_namespaces():
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"sparseleaf{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", name], check=False)
    bridge = ["ip", "link", "add", f"sl{os.getpid()}b", "type", "bridge"]
    if not made or subprocess.run(bridge, capture_output=True, check=False).returncode:
        return False
    subprocess.run(["ip", "link", "del", f"sl{os.getpid()}b"], check=False)
    return True


@pytest.mark.slow
def test_ranks_on_separate_hosts_train_the_same_model(mpiexec):
    if not may_make_namespaces():
        pytest.skip("network namespaces need root and iproute2")
    version = subprocess.run(
        [*mpiexec.command, "--version"], capture_output=True, text=True, check=False
    ).stdout
    if "HYDRA" not in version:
        pytest.skip("the script starts ranks by MPICH's launcher")
    done = subprocess.run(
        [SCRIPT, "2"],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={**os.environ, "PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("2 ranks in 2 network namespaces: the same model") == 2
