"""A file system that is really full: a small tmpfs, mounted in a namespace of the process's own."""

import os
import shutil
import subprocess
import sys

import pytest

MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'


def run_with_small_disk(folder, kilobytes, *command, **options):
    """Run Python with a file system of that size in the folder; what it holds is gone afterwards."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare to make a mount namespace with")
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh"]
    small = [*inside, f"{kilobytes}k", os.fspath(folder)]
    probe = subprocess.run([*small, "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {probe.stderr.strip()}")
    words = [*small, sys.executable, *map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=100, **options)
