# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""The process group: a subclass of PyTorch's, which serves all devices of a group."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from sparkring.torch._group import Group


class ProcessGroup(Group, dist.ProcessGroup):
    """A group of ranks of ``torch.distributed`` over a `Communicator`.

    ``torch.distributed.init_process_group("sparkring")`` and ``new_group`` make it. Its calls go
    from Python to Python, and not through the C++ of PyTorch. A group closes the communicator that
    it has opened. A communicator of the caller (`Communicator.torch_group`) stays open.
    """

    _group_name = _description = ""

    def _get_backend(self, device: Any) -> ProcessGroup:
        return self

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device(each) for each in device_types()]

    def rank(self) -> int:
        """Return the rank in the group.

        Returns
        -------
        int
        """
        return self._comm.rank

    def size(self) -> int:
        """Return the size of the group.

        Returns
        -------
        int
        """
        return self._comm.size

    getRank, getSize = rank, size  # noqa: N815

    @property
    def group_name(self) -> str:
        """str: the name in PyTorch's table of groups."""
        return self._group_name

    @property
    def group_desc(self) -> str:
        """str: the description that the caller of ``new_group`` gave."""
        return self._description

    def getGroupName(self) -> str:  # noqa: N802
        """Return the name in PyTorch's table of groups.

        Returns
        -------
        str
        """
        return self._group_name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """Set the name in PyTorch's table of groups.

        Parameters
        ----------
        name : str
            The name; it opens the messages of errors.
        """
        self._group_name = name
        self._set_group_uid(name)

    def getGroupDesc(self) -> str:  # noqa: N802
        """Return the description.

        Returns
        -------
        str
        """
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        """Set the description.

        Parameters
        ----------
        description : str
            Any text.
        """
        self._description = description

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc

    def get_group_store(self) -> Any:
        """Return the store of the group.

        Returns
        -------
        torch.distributed.Store
        """
        return self._store


def device_types() -> list[str]:
    """Return the types of devices that the backend serves with this PyTorch."""
    return ["cpu", "cuda"] if torch.backends.cuda.is_built() else ["cpu"]
