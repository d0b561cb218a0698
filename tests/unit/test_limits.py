"""Memory limits of containers and of processes."""

import subprocess
import sys

import pytest

from sparseleaf import _limits, memory
from sparseleaf._limits import remaining_memory

GIB = 1 << 30


def write_group(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


@pytest.fixture
def groups(tmp_path, monkeypatch):
    monkeypatch.setattr(_limits, "GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(_limits, "MOUNT", tmp_path / "mount")
    monkeypatch.setattr(_limits, "_of_address_space", list)
    return tmp_path


def test_the_smallest_group_limits(groups):
    (groups / "cgroup").write_text("0::/pod/container\n")
    for group, most in (("pod/container", "max"), ("pod", 8 * GIB), ("", 64 * GIB)):
        files = {"memory.max": most, "memory.current": 3 * GIB, "memory.stat": f"anon 1\ninactive_file {GIB}"}
        write_group(groups / "mount" / group, files)
    assert remaining_memory() == 6 * GIB


def test_a_container_sees_its_group_as_the_root(groups):
    (groups / "cgroup").write_text("3:cpu:/elsewhere\n2:memory,hugetlb:/docker/0123\n")
    write_group(groups / "mount" / "memory", {
        "memory.limit_in_bytes": GIB, "memory.usage_in_bytes": 2 * GIB, "memory.stat": "total_inactive_file 0",
    })  # fmt: skip
    assert remaining_memory() == 0
    (groups / "mount" / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert remaining_memory() is None


@pytest.mark.parametrize("text", ["", "0::/\n", "1:name=systemd:/user\n"])
def test_no_limit(groups, text):
    (groups / "cgroup").write_text(text)
    assert remaining_memory() is None
    assert memory.available_memory() > 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_address_space_limits():
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 34, 1 << 34))\n"
        "from sparseleaf._limits import remaining_memory\n"
        "assert 1 << 30 < remaining_memory() < 1 << 34, remaining_memory()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_memory_that_is_never_written_counts_only_under_some_limits(monkeypatch, tmp_path):
    overcommit = tmp_path / "overcommit_memory"
    monkeypatch.setattr(_limits, "OVERCOMMIT", overcommit)
    monkeypatch.setattr(_limits, "_of_address_space", lambda: iter(()))
    assert not _limits.untouched_memory_counts()  # no such file
    for value, counts in (("0", False), ("1", False), ("2", True)):
        overcommit.write_text(f"{value}\n")
        assert _limits.untouched_memory_counts() == counts
    monkeypatch.setattr(_limits, "_of_address_space", lambda: iter((5,)))
    overcommit.write_text("0\n")
    assert _limits.untouched_memory_counts()
