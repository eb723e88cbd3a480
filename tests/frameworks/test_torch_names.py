# SPDX-License-Identifier: Apache-2.0
"""The names of torch.distributed that our modules use: a release that lacks one is a failure."""

from __future__ import annotations

import ast
import operator
from pathlib import Path

import sparkring
from ranks import run

PACKAGE = Path(sparkring.__file__).parent

# The methods by which PyTorch's Python and C++ call a group, from the oldest release on.
CALLED = """
_allgather_base _device_types _end_coalescing _get_backend _get_backend_name
_get_sequence_number_for_group _reduce_scatter_base _set_group_desc _set_group_name
_start_coalescing abort allgather allgather_coalesced allgather_into_tensor_coalesced
allreduce allreduce_coalesced alltoall alltoall_base barrier broadcast gather
get_group_store group_desc group_name monitored_barrier name rank recv recv_anysource reduce
reduce_scatter reduce_scatter_tensor_coalesced scatter send set_timeout shutdown size
"""
OPTIONS = {
    "AllreduceOptions": "asyncOp reduceOp",
    "AllreduceCoalescedOptions": "asyncOp reduceOp",
    "AllgatherOptions": "asyncOp",
    "AllToAllOptions": "asyncOp",
    "BarrierOptions": "asyncOp",
    "BroadcastOptions": "asyncOp rootRank",
    "GatherOptions": "asyncOp rootRank",
    "ReduceOptions": "asyncOp reduceOp rootRank",
    "ReduceScatterOptions": "asyncOp reduceOp",
    "ScatterOptions": "asyncOp rootRank",
}


def names_of(path):
    """List the names in a module that begin with torch.distributed or its C extension."""
    tree = ast.parse(path.read_text())
    bound = {"torch": "torch"}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            source = getattr(node, "module", None)
            for alias in node.names:
                whole = f"{source}.{alias.name}" if source else alias.name
                if alias.asname or source:
                    bound[alias.asname or alias.name] = whole
                if whole.startswith("torch."):
                    yield whole
    for node in ast.walk(tree):
        parts = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if parts and isinstance(node, ast.Name) and node.id in bound:
            yield ".".join([bound[node.id], *parts])


def used():
    """List what the package uses of torch.distributed and its C extension."""
    found = {name for path in PACKAGE.rglob("*.py") for name in names_of(path)}
    return sorted(n for n in found if n.startswith(("torch.distributed.", "torch._C._distributed")))


def missing(names):
    """List the names that this PyTorch lacks."""
    from torch._C import _distributed_c10d as c10d

    group = [f"torch._C._distributed_c10d.ProcessGroup.{each}" for each in CALLED.split()]
    lacks = [each for each in (*names, *group) if not exists(each)]
    for kind, fields in OPTIONS.items():
        options = getattr(c10d, kind)()
        lacks += [f"{kind}.{each}" for each in fields.split() if not hasattr(options, each)]
    return lacks


def exists(name):
    import torch

    try:
        operator.attrgetter(name.partition(".")[2])(torch)
    except AttributeError:
        return False
    return True


def test_pytorch_has_the_names_that_we_use():
    names = used()
    assert {"torch.distributed.Work", "torch._C._distributed_c10d.ErrorType"} < set(names)
    assert run(1, missing, names) == [[]]
