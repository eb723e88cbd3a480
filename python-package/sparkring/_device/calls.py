# SPDX-License-Identifier: Apache-2.0
"""Arrays in the memory of GPUs as arguments and results of the calls of a communicator.

The methods of a communicator are those for arrays of the host. The core calls `view` for an array
that is on a GPU, and `make` for memory of a result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparkring._core import InvalidError
from sparkring._device import operand as operands
from sparkring._device.buffers import check_gpu, on_shared_stream
from sparkring._device.device import opened
from sparkring._device.operand import Operand, Shape

if TYPE_CHECKING:
    from sparkring._communicator import Communicator
    from sparkring._core import DeviceHandle


class DeviceRequest:
    """A call of a device that has started, with the methods of a `Request`."""

    def __init__(self, handle: DeviceHandle, stream: int, result: Any) -> None:
        self._handle, self._stream, self._result = handle, stream, result

    def wait(self) -> Any:
        """Wait until the work is done and return the result; raise its error."""
        self._handle.wait(self._stream)
        return self._result

    def test(self) -> bool:
        """Return whether the work is done; raise its error."""
        return self._handle.test(self._stream)


def view(
    comm: Communicator, x: Any, name: str, dtype: str | None, device: str
) -> tuple[int, Shape, str, int, bool, Operand]:
    """Read an array: address, shape, dtype, stream, whether it is read-only; and what keeps it.

    ``device``: that of the communicator, which the call ``"opens"``, or which is ``"open"``; or one
    ``"apart"``, for which the core checks the array.
    """
    array = operands.read(x, name, dtype)
    if device == "open" and comm._device_get() is None:
        raise InvalidError(
            "only two ranks take part in a message, and all ranks open a device: call"
            " comm.device() on all ranks first"
        )
    if device != "apart":
        handle = opened(comm, array.gpu)
        check_gpu(handle, array, name)
        array = on_shared_stream(handle, array)
    return array.address, array.shape, array.dtype, array.stream, array.readonly, array


def make(comm: Communicator, like: Operand, shape: Shape) -> tuple[int, Callable[[], Any]]:
    """Make memory of a result like an array; the function makes an array of it."""
    return operands.make(comm._device_get(), like, shape)
