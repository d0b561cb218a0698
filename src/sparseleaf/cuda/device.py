"""A GPU: its memory, and launches of the kernels in ``*.cu``."""

from __future__ import annotations

import functools
import re
import struct
from collections import ChainMap
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sparseleaf._arrays import Array

OPTIONS = ("--std=c++17", "--fmad=false")
"""No contraction of multiply-add, which rounds once instead of twice: the CPU's kernels have none either."""


SOURCES = ("tree.cu", "round.cu")

THREADS = 256
"""Threads of a block; a power of two."""


class Device(Protocol):
    """Memory of a device and launches of its kernels. Arrays of a device support slicing and ``nbytes``."""

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """Allocate an array."""

    def upload(self, array: Array) -> Any:
        """Copy an array to the device."""

    def upload_together(self, arrays: Sequence[Array]) -> list[Any]:
        """Copy small arrays in one transfer; they are valid until the next call."""

    def download(self, array: Any) -> Array:
        """Copy an array from the device, after all kernels launched so far."""

    def address(self, array: Any) -> int:
        """Address of an array on the device."""

    @property
    def shared_bytes(self) -> int:
        """Shared memory that a block may use."""

    def launch(self, name: str, args: Array, n_blocks: int, threads: int, shared: int) -> None:
        """Launch a kernel; ``args`` is the struct of its arguments."""


@functools.cache
def open_device() -> Device:
    """The GPU to train on; its kernels are compiled once per process."""
    return CudaDevice()


def require_device(name: str) -> None:
    """Raise an error unless trees can be grown on this device."""
    if name == "cuda":
        open_device()




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
            name: np.dtype([_field(line) for line in _without_comments(body).split(";") if line.strip()])
            for name, body in re.findall(r"struct (\w+Args) \{(.*?)\n\};", source, re.DOTALL)
        }
        of_kernel = dict(re.findall(r"^SL_KERNEL\((\w+), (\w+)\)", source, re.M))
        of_kernel |= {f"gradients_{loss}": "GradientArgs" for loss in re.findall(r"^    LOSS\((\w+),", source, re.M)}
        self._of_kernel = {kernel: _Packer.of(structs[name]) for kernel, name in of_kernel.items()}

    def pack(self, device: Device, kernel: str, values: Mapping[str, Any]) -> Array:
        """The struct of a kernel's arguments; arrays are passed by address, None as a null pointer."""
        packer = self._of_kernel[kernel]
        fields = [
            (0 if values[name] is None else device.address(values[name])) if is_array else values[name]
            for name, is_array in packer.fields
        ]
        return np.frombuffer(struct.pack(packer.format, *fields), packer.dtype)


@dataclass(frozen=True)
class _Packer:
    dtype: np.dtype[Any]
    format: str
    fields: Sequence[tuple[str, bool]]  # name, and whether it is an array

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> _Packer:
        kinds = [dtype[name] for name in dtype.names or ()]
        letters = {np.dtype(np.uint64): "Q", np.dtype(np.int64): "q", np.dtype(np.float64): "d"}
        fields = [(name, kind == np.uint64) for name, kind in zip(dtype.names or (), kinds, strict=True)]
        return cls(dtype, "=" + "".join(letters[kind] for kind in kinds), fields)


class Kernels:
    """Launches kernels with arguments by name.

    Parameters
    ----------
    device : Device
    **fixed
        Arguments of several kernels.
    """

    def __init__(self, device: Device, **fixed: Any) -> None:
        self.device = device
        self.fixed = fixed

    def launch(self, kernel: str, n_blocks: int, shared: int = 0, threads: int = THREADS, **values: Any) -> None:
        """Launch a kernel unless it has no blocks; ``shared`` is in bytes per block."""
        if n_blocks == 0:
            return
        args = _arguments().pack(self.device, kernel, ChainMap(values, self.fixed))
        self.device.launch(kernel, args, n_blocks, threads, shared)


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


def _field(declaration: str) -> tuple[str, type]:
    kind, name = re.fullmatch(r"\s*(.*?)\s*(\w+)\s*", declaration, re.DOTALL).groups()  # type: ignore[union-attr]
    return name, np.uint64 if kind.endswith("*") else {"i64": np.int64, "double": np.float64}[kind]


class CudaDevice:
    """See :class:`Device`. One GPU, the current one of CuPy."""

    def __init__(self) -> None:
        try:
            import cupy
        except ImportError as error:
            raise ImportError(
                'device="cuda" requires CuPy. Install it with: pip install "sparseleaf[cuda]".'
            ) from error
        try:
            cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise RuntimeError(
                f'device="cuda" requires an NVIDIA GPU and its driver. CUDA reports: {error}'
            ) from error
        self._cupy = cupy
        self._module = cupy.RawModule(code=kernel_source(), options=OPTIONS, backend="nvrtc")
        self._kernels: dict[str, Any] = {}
        self._shared_of: dict[str, int] = {}
        self._shared: int = cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
        self._staging = np.empty(0, np.uint8)
        self._small = cupy.empty(0, np.uint8)
        self._staged = cupy.cuda.Event(disable_timing=True)

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """See :class:`Device`."""
        try:
            return self._cupy.empty(shape, dtype)
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            free, _ = self._cupy.cuda.runtime.memGetInfo()
            needed = int(np.prod(shape)) * np.dtype(dtype).itemsize
            raise MemoryError(
                f"Training needs {needed / 2**30:.1f} GiB more on the GPU, but {free / 2**30:.1f} GiB are free. Use"
                ' fewer rows, a smaller sketch_dim, fewer bins or device="cpu".'
            ) from error

    def upload(self, array: Array) -> Any:
        """See :class:`Device`."""
        to = self.empty(array.shape, array.dtype)
        to.set(np.ascontiguousarray(array))
        return to

    def upload_together(self, arrays: Sequence[Array]) -> list[Any]:
        """See :class:`Device`. One transfer from pinned memory takes a fraction of the time of several."""
        ends = np.cumsum([-(-array.nbytes // 16) * 16 for array in arrays]).tolist()
        self._staged.synchronize()  # the previous transfer
        if len(self._staging) < ends[-1]:
            pinned = self._cupy.cuda.alloc_pinned_memory(2 * ends[-1])
            self._staging = np.frombuffer(pinned, np.uint8, 2 * ends[-1])
            self._small = self.empty(2 * ends[-1], np.uint8)
        uploaded = []
        for array, begin in zip(arrays, [0, *ends], strict=False):
            bytes_ = slice(begin, begin + array.nbytes)
            self._staging[bytes_] = np.ascontiguousarray(array).view(np.uint8).ravel()
            uploaded.append(self._small[bytes_].view(array.dtype))
        self._small[: ends[-1]].set(self._staging[: ends[-1]], stream=self._cupy.cuda.get_current_stream())
        self._staged.record()
        return uploaded

    def download(self, array: Any) -> Array:
        """See :class:`Device`."""
        host: Array = array.get()
        return host

    def address(self, array: Any) -> int:
        """See :class:`Device`."""
        return int(array.data.ptr)

    @property
    def shared_bytes(self) -> int:
        """See :class:`Device`."""
        return self._shared

    def launch(self, name: str, args: Array, n_blocks: int, threads: int, shared: int) -> None:
        """See :class:`Device`."""
        kernel = self._kernels.get(name)
        if kernel is None:
            kernel = self._kernels[name] = self._module.get_function(name)
        if shared > self._shared_of.get(name, 0):  # asking the driver takes longer than launching
            kernel.max_dynamic_shared_size_bytes = shared
            self._shared_of[name] = shared
        kernel((n_blocks,), (threads,), (args,), shared_mem=shared)
