# SPDX-License-Identifier: Apache-2.0
"""Memory of a GPU that a device has allocated, for results of libraries that lend no memory."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError

if TYPE_CHECKING:
    from sparkring._core import DeviceHandle

_CUDA = 2  # DLPack's number


class DeviceArray:
    """An array in the memory of a GPU, contiguous, for any library that reads one of two protocols.

    The protocols are ``__cuda_array_interface__`` and DLPack. An array is what a collective
    returns for an array of a library that cannot make arrays of the memory of others.

    Attributes
    ----------
    shape : tuple of int
    dtype : str
        The core's name, such as ``"float32"``.
    gpu : int
        The number of the GPU in this process.
    """

    def __init__(self, handle: DeviceHandle, shape: tuple[int, ...], dtype: str, gpu: int) -> None:
        width = 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize
        self._handle, self._memory = handle, handle.alloc(math.prod(shape) * width)
        self.shape, self.dtype, self.gpu = shape, dtype, gpu
        self.stream = 0  # of the call that writes the array

    def __repr__(self) -> str:
        """Tell shape, dtype and GPU."""
        return f"<sparkring.DeviceArray {self.shape} of {self.dtype} on GPU {self.gpu}>"

    @property
    def address(self) -> int:
        """int: where the array begins."""
        return self._memory.address

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """dict: version 3 of the protocol."""
        words = "uint16" if self.dtype == "bfloat16" else self.dtype
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": np.dtype(words).str,
            "data": (self.address, False),
            "strides": None,
            "stream": self.stream or 1,
        }

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule, after the work on the array unless the consumer uses its stream."""
        if copy or (dl_device is not None and dl_device != self.__dlpack_device__()):
            raise BufferError("a DeviceArray is lent where it is, and not copied")
        if stream != -1 and (stream or 1) != (self.stream or 1):
            with contextlib.suppress(InvalidError):  # a closed device has waited
                self._handle.wait(self.stream)
        return self._memory.dlpack(self.dtype, self.shape, self.gpu, max_version is not None)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the type and the number of the GPU."""
        return _CUDA, self.gpu
