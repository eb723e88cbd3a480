# SPDX-License-Identifier: Apache-2.0
"""The device of a communicator: one GPU of each rank."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Union

from sparkring._agree import agree
from sparkring._core import InvalidError
from sparkring._device import operand as operands
from sparkring._device.array import DeviceArray
from sparkring._device.buffers import check_gpu, on_shared_stream, reduce_group
from sparkring._explanation import DeviceExplanation
from sparkring.frameworks._nccl import libraries, nvrtc_of_wheels

if TYPE_CHECKING:
    from sparkring._communicator import Communicator
    from sparkring._core import DeviceHandle

_Path = Union[str, "os.PathLike[str]", None]
PATHS = ("auto", "nccl", "host")


class Device:
    """A GPU of each rank, for the calls of a communicator on arrays there.

    `Communicator.device` opens it; so does the first call with an array on a GPU. Closing the
    communicator closes the device. Calls of a device have an order of their own, the same on every
    rank.
    """

    def __init__(self, handle: DeviceHandle) -> None:
        self._handle = handle

    def __repr__(self) -> str:
        """Return the explanation in words."""
        return f"<sparkring.Device {self.explain()}>"

    def explain(self) -> DeviceExplanation:
        """Explain which path the calls take, and why.

        Returns
        -------
        DeviceExplanation
        """
        return DeviceExplanation(*self._handle.explain())

    def wait(self, x: Any = None) -> None:
        """Wait until the work on a stream is done. Only then is it certain that results are valid.

        Parameters
        ----------
        x : array or int, optional
            An array, for the stream on which a call with it would run now, or the address of a
            stream. By default the default stream of CUDA.

        Raises
        ------
        PeerLostError, TimeoutError, MismatchError, AbortedError, SystemCallError
            When a call has failed since: streams go on then, and their outputs are undefined. The
            error names the rank at fault and its host.
        """
        self._handle.wait(_stream(x))

    def test(self, x: Any = None) -> bool:
        """Return whether `wait` would return at once.

        Parameters
        ----------
        x : array or int, optional
            As for `wait`.

        Returns
        -------
        bool

        Raises
        ------
        PeerLostError, TimeoutError, MismatchError, AbortedError, SystemCallError
            As for `wait`.
        """
        return self._handle.test(_stream(x))

    def cast(self, x: Any, dtype: str, scale: float = 1.0, out: Any = None) -> Any:
        """Convert an array between float32 and a half, and multiply it, on the GPU. Not collective.

        Parameters
        ----------
        x : array
            Of float32, float16 or bfloat16.
        dtype : str
            That of the result: ``"float32"``, ``"float16"`` or ``"bfloat16"``; one of both dtypes
            is float32, or both are the same.
        scale : float
            The factor.
        out : array, optional
            Gets the result, which is a `DeviceArray` else.

        Returns
        -------
        DeviceArray or out

        Raises
        ------
        InvalidError
            For other dtypes, and for an array that is not on the GPU of the device.
        UnsupportedError
            On a stream that captures a graph, and where a rank cannot load the kernels.
        """
        source = operands.read(x, "x")
        check_gpu(self._handle, source, "x")
        source = on_shared_stream(self._handle, source)
        numbers = (source.address, source.dtype)
        if out is not None:
            target = operands.read(out, "out", dtype)
            if target.elements != source.elements or target.readonly:
                raise InvalidError("out must be writable, contiguous and as long as x")
            self._handle.cast(
                *numbers, target.address, dtype, source.elements, scale, source.stream
            )
            return out
        made = DeviceArray(self._handle, source.shape, dtype, self.explain().gpu)
        made.stream = source.stream
        self._handle.cast(*numbers, made.address, dtype, source.elements, scale, source.stream)
        return made

    def allreduce_group(
        self,
        xs: Iterable[Any],
        op: str = "sum",
        *,
        out: Iterable[Any] | None = None,
        wire: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> list[Any]:
        """Combine many arrays of one dtype, of which short ones travel together, perhaps as halves.

        Parameters
        ----------
        xs : iterable of array
            Of one dtype.
        op : str
            As for `Communicator.allreduce`.
        out : iterable of array, optional
            Get the results; may be the arrays themselves.
        wire : str, optional
            The dtype in which the elements travel: that of the arrays, or a half for float32, or
            float32 for halves.
        prescale, postscale : float
            Multiply floating-point elements before and after.

        Returns
        -------
        list of array

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError, UnsupportedError
            As for `Communicator.allreduce_group`.
        """
        return reduce_group(self._handle, xs, op, out, None, wire, prescale, postscale)

    def abort(self, reason: str | None = None) -> None:
        """End the device from this rank alone: its calls fail on all ranks with `AbortedError`.

        Parameters
        ----------
        reason : str, optional
            Text for the errors of all ranks.
        """
        self._handle.abort(reason)


def _stream(x: Any) -> int:
    if x is None:
        return 0
    return x if isinstance(x, int) else operands.read(x, "x").stream


def opened(comm: Communicator, gpu: int | None) -> DeviceHandle:
    """Return the device of a communicator, which the first call of all ranks opens."""
    handle = comm._device_get()
    return device(comm, gpu=gpu)._handle if handle is None else handle


def device(
    self: Communicator,
    path: str = "auto",
    gpu: int | None = None,
    *,
    nccl: _Path = None,
    cuda: _Path = None,
    nvrtc: _Path = None,
) -> Device:
    """Open the device of this communicator, one GPU of each rank. Collective.

    Where it is open already, it is returned.
    The first collective with an array on a GPU opens it as well, on the GPU of that array. NCCL
    and CUDA's driver are loaded at run time. Closing the communicator closes the device.

    Parameters
    ----------
    path : str
        ``"auto"``: by NCCL where every rank can use it, else through the host. NCCL neither
        authenticates nor encrypts its traffic, so a communicator that encrypts between hosts goes
        through the host. ``"nccl"``: by NCCL, in plain, or not at all. ``"host"``: through
        page-locked memory and the communicator. The same on every rank.
    gpu : int, optional
        The number of this rank's GPU in this process. By default that of the current CUDA context.
        Without one the ranks of a host take its GPUs in turn.
    nccl, cuda, nvrtc : str or path, optional
        The libraries. By default NCCL and NVRTC of NVIDIA's wheels, or else ``libnccl.so.2`` and
        ``libnvrtc`` where the system finds them; and ``libcuda.so.1``. NCCL has to be 2.23 or
        newer, the same on all ranks. NVRTC compiles the kernels that pack and convert arrays; where
        a rank lacks it, calls work without them.

    Returns
    -------
    Device

    Raises
    ------
    UnsupportedError
        When a rank has no driver or no GPU, when another CUDA context than the primary one of its
        GPU is current, or when a rank lacks NCCL and ``path`` is ``"nccl"``; on all ranks.
    InvalidError
        When the device is open already, on another path or GPU.
    MismatchError, PeerLostError, TimeoutError, AbortedError
        As for `allreduce`.

    Examples
    --------
    >>> print(comm.device().explain())
    """
    handle = self._device_get()
    if handle is not None:
        return _same(handle, path, gpu)

    def check() -> tuple[str, int, str, str | None, str | None]:
        if path not in PATHS:
            raise InvalidError(f"path is {path!r}: it must be one of {', '.join(PATHS)}")
        names, compiler = usual_libraries(self)
        names = names if nccl is None else os.fspath(nccl)
        compiler = compiler if nvrtc is None else os.fspath(nvrtc)
        driver = None if cuda is None else os.fspath(cuda)
        return path, -1 if gpu is None else gpu, names, driver, compiler

    return Device(self._device_open(*agree(self, check)))


def usual_libraries(_: Communicator) -> tuple[str, str | None]:
    """Return the names of NCCL and NVRTC for the core: those of NVIDIA's wheels come first."""
    return ":".join(libraries()), ":".join(nvrtc_of_wheels()) or None


def _same(handle: DeviceHandle, path: str, gpu: int | None) -> Device:
    opened = Device(handle)
    if path not in ("auto", handle.path) or gpu not in (None, handle.gpu):
        raise InvalidError(
            f"the communicator has a device already: {opened.explain()}. Open it before the first"
            " call with an array on a GPU"
        )
    return opened
