# SPDX-License-Identifier: Apache-2.0
"""NCCL: the unique id by which the processes of its communicator find each other.

The core loads the library and asks it. PyTorch's NCCL is in the wheel ``nvidia-nccl``, where the
system does not find it. All ranks must use the same version, so the wheel's NCCL comes first.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from sparkring._agree import agree
from sparkring.frameworks import _device as device
from sparkring.frameworks._exchange import communicator

if TYPE_CHECKING:
    from sparkring.frameworks._exchange import Ring

NAMES = ("libnccl.so.2", "libnccl.so")


def nccl_id(comm: Ring = None, /, library: str | os.PathLike[str] | None = None) -> bytes:
    """Return the same unique id of NCCL on all ranks, to make an NCCL communicator.

    Collective. Rank 0 loads NCCL and asks it; the other ranks need no NCCL for the call. The
    process of rank 0 must live until the NCCL communicator has been made. NCCL chooses the network
    itself: the variable ``NCCL_SOCKET_IFNAME``, if it is needed, must be set on all ranks before.
    The traffic of NCCL is neither authenticated nor encrypted.

    Parameters
    ----------
    comm : Communicator or BarrierTaskContext, optional
        As for `torch_env`.
    library : str or path, optional
        The path of NCCL on rank 0. By default the library of the wheel ``nvidia-nccl``, which
        PyTorch uses, or else ``libnccl.so.2`` or ``libnccl.so`` where the system finds it.

    Returns
    -------
    bytes
        The 128 bytes of an ``ncclUniqueId``.

    Raises
    ------
    UnsupportedError
        When rank 0 has no NCCL, or NCCL fails; on all ranks.
    InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
        As for `torch_env`.

    Examples
    --------
    >>> unique = comm.nccl_id()
    >>> nccl = cupy.cuda.nccl.NcclCommunicator(comm.size, tuple(unique), comm.rank)
    """
    with communicator(comm) as ring:

        def find() -> bytes:
            device.use_task_gpus()
            return os.fsencode(":".join(libraries()) if library is None else library)

        return ring._nccl_id(agree(ring, find))


def libraries() -> list[str]:
    """List the paths where NCCL may be, the best path first."""
    return [*_in_wheel("nvidia.nccl", NAMES[0]), *NAMES]


def nvrtc_of_wheels() -> list[str]:
    """List the paths of NVRTC in the wheels of NVIDIA that PyTorch and CuPy install."""
    wheels = (("nvidia.cu13", "libnvrtc.so.13"), ("nvidia.cuda_nvrtc", "libnvrtc.so.12"))
    paths = [path for module, name in wheels for path in _in_wheel(module, name)]
    return [path for path in paths if os.path.exists(path)]


def _in_wheel(module: str, name: str) -> list[str]:
    try:
        wheel = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # there is no nvidia
        wheel = None
    directories = (wheel.submodule_search_locations if wheel else None) or []
    return [os.path.join(directory, "lib", name) for directory in directories]
