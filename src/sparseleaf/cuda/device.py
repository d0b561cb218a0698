"""A GPU: its memory, and launches of the kernels in ``*.cu``."""

from __future__ import annotations

import functools
import os
import platform
import re
import struct
import threading
from importlib import resources
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparseleaf._arrays import Array
    from sparseleaf.distributed.communicator import Communicator

OPTIONS = ("--std=c++17", "--fmad=false")
"""No contraction of multiply-add, which rounds once instead of twice: the CPU's kernels have none either."""

SOURCES = ("tree.cu", "round.cu", "predict.cu")

THREADS = 256
"""Threads of a block; a power of two."""


class Device(Protocol):
    """Memory of a device and launches of its kernels. Arrays of a device support slicing and ``nbytes``."""

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """Allocate an array."""

    def upload(self, array: Array) -> Any:
        """Copy an array to the device."""

    def stage(self, array: Array) -> Any:
        """Copy a small array without waiting for it; the copy is valid until the next call."""

    def download(self, array: Any, out: Array | None = None) -> Array:
        """Copy an array from the device, after all kernels launched so far; ``out``: to there."""

    def address(self, array: Any) -> int:
        """Address of an array on the device."""

    @property
    def shared_bytes(self) -> int:
        """Shared memory that a block may use."""

    @property
    def free_bytes(self) -> int:
        """Memory that can be allocated."""

    def use(self) -> None:
        """Make this the current device of the thread."""

    def launch(self, name: str, args: Array, n_blocks: int, threads: int, shared: int) -> None:
        """Launch a kernel; ``args`` is the struct of its arguments."""


_worker = threading.local()


def open_device() -> Device:
    """The GPU of the worker in this thread, which becomes the current one."""
    device: Device | None = getattr(_worker, "device", None)
    if device is None:
        device = _worker.device = CudaDevice(getattr(_worker, "number", 0))
    device.use()
    return device


def assigned_gpu(name: str, comm: Communicator) -> int | None:
    """Number of this worker's GPU, for :func:`use_gpu`; None for the CPU.

    Workers of a machine that see the same GPUs take them in turn.
    """
    if name != "cuda":
        return None
    workers = comm.allgather((platform.node(), os.environ.get("CUDA_VISIBLE_DEVICES")))
    return workers[: comm.rank].count(workers[comm.rank])


def use_gpu(number: int | None) -> None:
    """Open the GPU of the worker in this thread; an error says what is missing. A worker may change its thread."""
    if number is None:
        return
    if getattr(_worker, "number", None) != number:
        _worker.number, _worker.device = number, None
    open_device()


def require_layout(name: str, layout: str, n_workers: int) -> None:
    """Raise an error unless several workers can share the rows in this layout."""
    if name == "cuda" and layout == "features" and n_workers > 1:
        raise ValueError("device='cuda' with several workers requires layout='rows'. Got 'features' instead.")


def kernel_source() -> str:
    """The kernels as one source text."""
    folder = resources.files("sparseleaf.cuda")
    included = set()

    def include(match: re.Match[str]) -> str:
        if match[1] in included:
            return ""
        included.add(match[1])
        return (folder / match[1]).read_text("utf-8")

    text = "\n".join((folder / name).read_text("utf-8") for name in SOURCES)
    return re.sub(r'#include "(\w+\.h)"', include, text).replace("#pragma once", "")


class Arguments:
    """Packs the arguments of kernels by the field names of their structs; every field has 8 bytes."""

    def __init__(self, source: str) -> None:
        structs = {
            name: [_field(line) for line in _without_comments(body).split(";") if line.strip()]
            for name, body in re.findall(r"struct (\w+Args) \{(.*?)\n\};", source, re.DOTALL)
        }
        of_kernel = dict(re.findall(r"^SL_KERNEL\((\w+), (\w+)\)", source, re.M))
        of_kernel |= {
            f"gradients_{loss}": "GradientArgs" for loss in re.findall(r"^    LOSS\((\w+),", source, re.M)
        }
        self._of_kernel = {
            kernel: (
                "=" + "".join(letter for letter, _ in structs[name]),
                [field for _, field in structs[name]],
            )
            for kernel, name in of_kernel.items()
        }

    def pack(self, kernel: str, values: Mapping[str, float]) -> Array:
        """The struct of a kernel's arguments, as one element without fields; arrays are passed by address."""
        # without fields, which CuPy would ask numpy to describe at every launch: that takes 30 µs
        letters, fields = self._of_kernel[kernel]
        return np.frombuffer(struct.pack(letters, *[values[name] for name in fields]), f"V{8 * len(fields)}")


class Kernels:
    """Launches kernels with arguments by name.

    Parameters
    ----------
    device : Device
    **fixed
        Arguments of several kernels: arrays of the device, numbers, or None for a null pointer.
    """

    def __init__(self, device: Device, **fixed: Any) -> None:
        self.device = device
        self._held = fixed  # arrays live as long as their addresses are used
        self.fixed = self.plain(fixed)

    def plain(self, values: Mapping[str, Any]) -> dict[str, float]:
        """The values with the addresses of arrays."""
        return {
            name: value
            if isinstance(value, int | float)
            else 0
            if value is None
            else self.device.address(value)
            for name, value in values.items()
        }

    def launch(self, kernel: str, n_blocks: int, shared: int = 0, **values: Any) -> None:
        """Launch a kernel; ``shared`` is in bytes per block."""
        self.launch_plain(kernel, n_blocks, shared, THREADS, self.fixed | self.plain(values))

    def launch_plain(
        self, kernel: str, n_blocks: int, shared: int, threads: int, values: Mapping[str, float]
    ) -> None:
        """Launch a kernel unless it has no blocks, with all its arguments as numbers."""
        if n_blocks:
            self.device.launch(kernel, _arguments().pack(kernel, values), n_blocks, threads, shared)


def memory_error(needed: int, free: int, more: str = "") -> MemoryError:
    """The error of an allocation that is too large."""
    return MemoryError(
        f"Training needs {needed / 2**30:.1f} GiB {more}on the GPU, but {free / 2**30:.1f} GiB are free. Use fewer"
        ' rows, fewer outputs, a smaller sketch_dim, fewer bins or device="cpu".'
    )


def require_memory(device: Device, needed: int) -> None:
    """Raise MemoryError unless this number of bytes can be allocated."""
    if needed > device.free_bytes:
        raise memory_error(needed, device.free_bytes)


def blocks_of(n: int) -> int:
    """Blocks for a thread per element."""
    return -(-n // THREADS)


def chunks_of(starts: Array, ends: Array, size: int) -> tuple[Array, Array]:
    """Chunks of ranges: (index of the range, begin, end, whether it is the only one) each; the first of every range."""
    counts = -(-(ends - starts) // size)
    first = np.concatenate(([0], np.cumsum(counts)))
    which = np.repeat(np.arange(len(starts)), counts)
    begin = starts[which] + (np.arange(first[-1]) - first[which]) * size
    return np.stack((which, begin, np.minimum(begin + size, ends[which]), counts[which] == 1), axis=1), first


@functools.cache
def _arguments() -> Arguments:
    return Arguments(kernel_source())


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", text)


def _field(declaration: str) -> tuple[str, str]:
    """Format letter and name of a field."""
    kind, name = re.fullmatch(r"\s*(.*?)\s*(\w+)\s*", declaration, re.DOTALL).groups()  # type: ignore[union-attr]
    return "Q" if kind.endswith("*") else {"i64": "q", "double": "d"}[kind], name


class CudaDevice:
    """See :class:`Device`. The GPU with this number, modulo the number of GPUs."""

    def __init__(self, number: int = 0) -> None:
        try:
            import cupy
        except ImportError as error:
            raise ImportError(
                'device="cuda" requires CuPy. Install it with: pip install "sparseleaf[cuda]".'
            ) from error
        try:
            self._gpu = cupy.cuda.Device(number % cupy.cuda.runtime.getDeviceCount())
            self._gpu.use()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise OSError(
                f'device="cuda" requires an NVIDIA GPU and its driver. CUDA reports: {error}'
            ) from error
        self._cupy = cupy
        self._module = cupy.RawModule(code=kernel_source(), options=OPTIONS, backend="nvrtc")
        self._kernels: dict[str, Any] = {}
        self._shared_of: dict[str, int] = {}
        self._shared: int = self._gpu.attributes["MaxSharedMemoryPerBlockOptin"]
        self._staging = np.empty(0, np.uint8)
        self._small = cupy.empty(0, np.uint8)
        self._staged = cupy.cuda.Event(disable_timing=True)

    def use(self) -> None:
        """See :class:`Device`."""
        self._gpu.use()

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """See :class:`Device`."""
        try:
            return self._cupy.empty(shape, dtype)
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            needed = int(np.prod(shape)) * np.dtype(dtype).itemsize
            raise memory_error(needed, self.free_bytes, "more ") from error

    def upload(self, array: Array) -> Any:
        """See :class:`Device`."""
        to = self.empty(array.shape, array.dtype)
        to.set(np.ascontiguousarray(array))
        return to

    def stage(self, array: Array) -> Any:
        """See :class:`Device`. From pinned memory, so that the transfer is asynchronous."""
        n = array.nbytes
        self._staged.synchronize()  # the previous transfer
        if len(self._staging) < n:
            small = self.empty(2 * n, np.uint8)  # may raise: then both stay as they are
            self._staging = np.frombuffer(self._cupy.cuda.alloc_pinned_memory(2 * n), np.uint8, 2 * n)
            self._small = small
        self._staging[:n] = array.reshape(-1).view(np.uint8)
        self._small.data.copy_from_host_async(self._staging.ctypes.data, n)
        self._staged.record()
        return self._small

    def download(self, array: Any, out: Array | None = None) -> Array:
        """See :class:`Device`."""
        host: Array = array.get(out=out)
        return host

    def address(self, array: Any) -> int:
        """See :class:`Device`."""
        return int(array.data.ptr)

    @property
    def shared_bytes(self) -> int:
        """See :class:`Device`."""
        return self._shared

    @property
    def free_bytes(self) -> int:
        """See :class:`Device`."""
        pool = self._cupy.get_default_memory_pool()
        return int(self._cupy.cuda.runtime.memGetInfo()[0]) + int(pool.free_bytes())

    def launch(self, name: str, args: Array, n_blocks: int, threads: int, shared: int) -> None:
        """See :class:`Device`."""
        kernel = self._kernels.get(name)
        if kernel is None:
            kernel = self._kernels[name] = self._module.get_function(name)
        if shared > self._shared_of.get(name, 0):  # asking the driver takes longer than launching
            # all threads of the process share the function: another one may have asked for more
            kernel.max_dynamic_shared_size_bytes = max(shared, kernel.max_dynamic_shared_size_bytes)
            self._shared_of[name] = shared
        kernel((n_blocks,), (threads,), (args,), shared_mem=shared)
