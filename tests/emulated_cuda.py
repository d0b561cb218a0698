"""The CUDA kernels compiled for the CPU: a block after the other, a thread of a block after the other.

Memory is filled with a pattern, so that a kernel that reads what nobody wrote does not find zeros.
"""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from sparseleaf.cuda.device import kernel_source


@functools.cache
def compiled_kernels():
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("requires g++")
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "tree.cpp"), Path(folder, "tree.so")
        source.write_text(kernel_source(), "utf-8")
        options = ["-std=c++20", "-O1", "-ffp-contract=off", "-DSL_EMULATION", "-shared", "-fPIC"]
        subprocess.run([compiler, *options, "-o", library, source], check=True)
        return ctypes.CDLL(str(library))


class EmulatedDevice:
    """See :class:`sparseleaf.cuda.device.Device`."""

    shared_bytes = 48 << 10
    free_bytes = 1 << 30
    n_launches = 0

    def empty(self, shape, dtype):
        array = np.empty(shape, dtype)
        array.view(np.uint8).fill(0xA5)
        return array

    def upload(self, array):
        return array.copy()

    def stage(self, array):
        self.staged = array.copy()
        return self.staged

    def download(self, array, out=None):
        if out is None:
            return np.ascontiguousarray(array)
        assert out.flags.c_contiguous
        out[...] = array
        return out

    def address(self, array):
        return array.ctypes.data

    def use(self):
        pass

    def launch(self, name, args, n_blocks, threads, shared):
        assert shared <= self.shared_bytes
        assert 0 < threads <= 1024
        assert 0 < n_blocks < 2**31
        EmulatedDevice.n_launches += 1
        room = np.full(shared // 8 + 1, np.nan)
        getattr(compiled_kernels(), name)(
            ctypes.c_void_p(args.ctypes.data),
            ctypes.c_longlong(n_blocks),
            ctypes.c_int(threads),
            ctypes.c_void_p(room.ctypes.data),
        )
