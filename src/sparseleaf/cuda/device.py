"""A GPU: its memory, and launches of the kernels in ``*.cu``."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

OPTIONS = ("--std=c++17", "--fmad=false")
"""No contraction of multiply-add, which rounds once instead of twice: the CPU's kernels have none either."""


class Device(Protocol):
    """Memory of a device and launches of its kernels. Arrays of a device support slicing and ``nbytes``."""

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """Allocate an array."""

    def upload(self, array: Array) -> Any:
        """Copy an array to the device."""

    def download(self, array: Any) -> Array:
        """Copy an array from the device, after all kernels launched so far."""

    def address(self, array: Any) -> int:
        """Address of an array on the device."""

    @property
    def shared_bytes(self) -> int:
        """Shared memory that a block may use."""

    def launch(self, name: str, args: Array, n_blocks: int, threads: int, shared: int) -> None:
        """Launch a kernel; ``args`` is the struct of its arguments."""


def open_device() -> Device:
    """The GPU to train on."""
    return CudaDevice()


def require_device(name: str) -> None:
    """Raise an error unless trees can be grown on this device."""
    if name == "cuda":
        open_device()


def kernel_source() -> str:
    """The kernels as one source text."""
    folder = resources.files("sparseleaf.cuda")
    text = (folder / "tree.cu").read_text("utf-8")
    return re.sub(r'#include "(\w+\.h)"', lambda match: (folder / match[1]).read_text("utf-8"), text).replace(
        "#pragma once", ""
    )


class Arguments:
    """Packs the arguments of kernels by the field names of their structs; every field has 8 bytes."""

    def __init__(self, source: str) -> None:
        structs = {
            name: np.dtype([_field(line) for line in _without_comments(body).split(";") if line.strip()])
            for name, body in re.findall(r"struct (\w+Args) \{(.*?)\n\};", source, re.DOTALL)
        }
        self._of_kernel = {
            kernel: structs[args] for kernel, args in re.findall(r"^SL_KERNEL\((\w+), (\w+)\)", source, re.M)
        }

    def pack(self, device: Device, kernel: str, values: dict[str, Any]) -> Array:
        """The struct of a kernel's arguments; arrays are passed by address, None as a null pointer."""
        dtype = self._of_kernel[kernel]
        assert dtype.names is not None
        packed = np.zeros(1, dtype)
        for name in dtype.names:
            value = values[name]
            if dtype[name] == np.uint64:
                packed[name] = 0 if value is None else device.address(value)
            else:
                packed[name] = value
        return packed


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
        self._shared: int = cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]

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
        if shared > kernel.max_dynamic_shared_size_bytes:
            kernel.max_dynamic_shared_size_bytes = shared
        kernel((n_blocks,), (threads,), (args,), shared_mem=shared)
