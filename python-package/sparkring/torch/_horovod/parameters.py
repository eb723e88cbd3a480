# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""The state of the root on all ranks: parameters, and the state of an optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from sparkring._horovod import operations
from sparkring._horovod.arguments import describe_names
from sparkring._horovod.errors import HorovodInternalError
from sparkring._horovod.objects import allgather_object, broadcast_object
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring.torch._horovod import starts
from sparkring.torch._horovod.arguments import check_optimizer
from sparkring.torch._horovod.shared_state import load_in_place


def broadcast_parameters(
    params: Any, root_rank: int, process_set: ProcessSet = global_process_set
) -> None:
    """Overwrite tensors with those of the root. Collective.

    Parameters
    ----------
    params : dict or iterable of (str, Tensor)
        ``model.state_dict()`` or ``model.named_parameters()``. Values that are no tensors are left
        alone.
    root_rank : int
        A global rank.
    process_set : ProcessSet

    Raises
    ------
    HorovodInternalError
        When the ranks' tensors have different names or shapes, and when ranks fail.
    """
    given = params.items() if isinstance(params, Mapping) else params
    pairs = list(given) if isinstance(given, Iterable) else [given]
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise ValueError(
            f"params of type {type(params).__name__} have no names: pass model.state_dict() or"
            " model.named_parameters()"
        )
    tensors = [(str(name), each) for name, each in pairs if isinstance(each, torch.Tensor)]
    names = describe_names(name for name, _ in tensors)
    operations.compare("parameters", names, process_set).wait()
    works = [
        starts.broadcast(tensor, tensor, root_rank, f"parameters.{name}", process_set)
        for name, tensor in sorted(tensors, key=lambda pair: pair[0])
    ]
    for work in works:
        work.wait()


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: torch.nn.Module | None = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Give the optimizer the state and the options of the root. Collective.

    Ranks may have stepped or not; the optimizer of the root decides. Options are set in place, so
    schedulers that were made on the optimizer go on with them.

    Parameters
    ----------
    optimizer : Optimizer
        With the same parameter groups on all ranks.
    root_rank : int
        A global rank.
    model : Module
        Horovod's, and ignored.
    process_set : ProcessSet

    Raises
    ------
    ValueError
        For LBFGS.
    HorovodInternalError
        When the ranks' optimizers have different classes or groups, and when ranks fail.
    """
    check_optimizer(optimizer)
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("the state of LBFGS cannot be broadcast: use broadcast_object()")
    _compare(optimizer, process_set)
    is_root = process_set.group().index(root_rank) == process_set.rank()
    state = broadcast_object(
        optimizer.state_dict() if is_root else None, root_rank, "optimizer", process_set
    )
    if not is_root:
        load_in_place(optimizer, optimizer.load_state_dict, state)


def _compare(optimizer: torch.optim.Optimizer, process_set: ProcessSet) -> None:
    """Raise an error on all ranks if their optimizers cannot have one state."""
    counts = [len(group["params"]) for group in optimizer.param_groups]
    mine = f"{type(optimizer).__name__} with groups of {counts} parameters"
    everywhere = allgather_object(mine, "optimizer", process_set)
    ranks = process_set.ranks or range(len(everywhere))
    for rank, other in zip(ranks, everywhere):
        if other != everywhere[0]:
            raise HorovodInternalError(
                f"ranks have different optimizers: rank {ranks[0]}: {everywhere[0]}; rank {rank}:"
                f" {other}: make the same optimizer on all ranks"
            )
