"""Memory limits of this process: its control groups (containers), and its address space (``ulimit -v``)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

GROUPS = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")
STATUS = Path("/proc/self/status")
OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")

UNLIMITED = 1 << 60
"""Limits from this size on are none: version 1 writes the largest number of pages."""

FILES = {
    # version 2 has one hierarchy, version 1 one of the memory controller
    "": ("", "memory.max", "memory.current", "inactive_file"),
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""Folder, limit, usage and reclaimable page cache of a control group, by the controllers of its hierarchy."""


def remaining_memory() -> int | None:
    """Bytes that this process may still allocate under its limits; None without a limit."""
    return min([*_of_groups(), *_of_address_space()], default=None)


def untouched_memory_counts() -> bool:
    """Whether memory counts that is allocated and never written: with a limit of the address space or of promises."""
    try:
        strict = OVERCOMMIT.read_text().strip() == "2"
    except OSError:  # not on Linux
        strict = False
    return strict or any(True for _ in _of_address_space())


def _of_groups() -> Iterator[int]:
    """What remains in the control groups of this process and in those around them."""
    try:
        lines = GROUPS.read_text().splitlines()
    except OSError:  # not on Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        kind = "memory" if "memory" in controllers.split(",") else controllers
        if kind not in FILES:
            continue
        folder, *names = FILES[kind]
        inner = PurePosixPath(path.lstrip("/"))
        for group in dict.fromkeys([inner, *inner.parents]):  # a container may see its own group as the root
            remaining = _of_group(MOUNT / folder / group, *names)
            if remaining is not None:
                yield remaining


def _of_group(group: Path, limit: str, usage: str, cache: str) -> int | None:
    try:
        most, used = (group / limit).read_text().strip(), int((group / usage).read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        if most == "max" or int(most) >= UNLIMITED:
            return None
        return max(0, int(most) - used + int(stat.get(cache, 0)))
    except (OSError, ValueError):  # no such group
        return None


def _of_address_space() -> Iterator[int]:
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return
        size = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmSize:"))
    except (ImportError, OSError, StopIteration):  # not on Linux
        return
    yield max(0, limit - 1024 * int(size.split()[1]))
