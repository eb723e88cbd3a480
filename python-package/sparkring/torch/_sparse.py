# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""The sum of sparse tensors: every rank gathers the entries of all ranks and adds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sparkring._communicator import Communicator
from sparkring.torch import _tensor_view as view


def allreduce(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    """Return the sum of the sparse tensors of all ranks. Collective, and blocks."""
    mine = tensor.detach().coalesce()
    indices = _gather(comm, mine.indices().t()).view(-1, mine.sparse_dim()).t()
    values = _gather(comm, mine.values()).view(-1, *mine.values().shape[1:])
    return torch.sparse_coo_tensor(indices, values, mine.shape).coalesce()


def _gather(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    """Concatenate tensors of every length."""
    gathered: Any = comm.allgatherv(view.octets(view.plain(tensor)))
    return torch.from_numpy(np.asarray(gathered)).clone().view(tensor.dtype)
