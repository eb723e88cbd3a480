# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls, allow-untyped-defs
"""The gradients of an optimizer on their way over the ranks.

A hook of each parameter counts backward passes and starts the reduction of the parameter, or of its
group, when the gradient is complete. All ranks submit the same names in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sparkring._horovod.ops import ReduceOp
from sparkring._horovod.pending import Pending
from sparkring._horovod.process_sets import ProcessSet
from sparkring._horovod.reduction import Reduction
from sparkring.torch._horovod import starts
from sparkring.torch._horovod.comparison import Comparison

Parameters = Sequence[Any]


class Gradients:
    """Reduces the gradients of named parameters."""

    def __init__(
        self,
        names: dict[Any, str],
        compression: Any,
        passes: int,
        op: ReduceOp,
        predivide: float,
        groups: int | Sequence[Parameters] | None,
        sparse_as_dense: bool,
        stays_sparse: bool,
        process_set: ProcessSet,
    ) -> None:
        self._names, self._compression, self._op = names, compression, op
        self._passes, self._predivide = passes, predivide
        self._sparse_as_dense, self._process_set = sparse_as_dense, process_set
        self._stays_sparse = stays_sparse  # the optimizer takes no dense gradients
        self._left = dict.fromkeys(names, passes)  # backward passes until the reduction
        self._works: dict[Any, tuple[Pending, list[Any], list[Any]]] = {}  # by parameter or group
        self._groups = _divide(names, groups)
        self._comparison = Comparison(
            names,
            process_set,
            passes,
            op=op,
            compression=compression,
            gradient_predivide_factor=predivide,
            groups=_describe_groups(self._groups, names),
            sparse_as_dense=sparse_as_dense,
        )
        self._is_due = False  # a reduction that waits for the comparison, in finish()
        self._hooked: set[Any] = set()
        self._hook()

    def set_passes(self, passes: int) -> None:
        """Set the number of backward passes before a reduction."""
        self._passes = passes
        self._left = dict.fromkeys(self._names, passes)
        self._comparison.set_passes(passes)

    def in_flight(self) -> bool:
        """Tell whether gradients are being reduced."""
        return self._is_due or bool(self._works)

    def finish(self) -> None:
        """Reduce what the backward passes have not, and wait for all."""
        if not self._process_set.included():
            return
        self._hook()
        self._is_due = False
        try:
            self._comparison.run()
            for parameter in self._names:
                if parameter.requires_grad and self._key(parameter) not in self._works:
                    self._start(self._key(parameter))
            works, self._works = self._works, {}
            for work, members, contexts in works.values():
                self._store(work, members, contexts)
        finally:
            self._left = dict.fromkeys(self._names, self._passes)

    # -- hooks --------------------------------------------------------------------------------

    def _hook(self) -> None:
        """Give a hook to parameters that require gradients and have none."""
        if not self._process_set.included():
            return
        for parameter in self._names:
            if parameter.requires_grad and parameter not in self._hooked:
                self._hooked.add(parameter)
                parameter.register_post_accumulate_grad_hook(self._ready)

    def _ready(self, parameter: Any) -> None:
        if self._left[parameter] <= 0:
            raise AssertionError(
                f"the gradient of {self._names[parameter]} was computed"
                f" {self._passes + 1} times before optimizer.step() or optimizer.synchronize():"
                " pass backward_passes_per_step to DistributedOptimizer"
            )
        self._left[parameter] -= 1
        key = self._key(parameter)
        if any(self._left[each] > 0 for each in self._members(key)):
            return
        if self._comparison.is_done():
            self._start(key)
        else:
            self._is_due = True

    def _key(self, parameter: Any) -> Any:
        return self._groups.get(parameter, parameter)

    def _members(self, key: Any) -> list[Any]:
        """List the parameters of a group that require gradients, or the parameter."""
        members = key if isinstance(key, tuple) else (key,)
        return [each for each in members if each.requires_grad]

    # -- reductions ---------------------------------------------------------------------------

    def _reduction(self, name: str, predivide: float) -> Reduction:
        asked = Reduction.predivided(name, self._op, predivide, self._process_set)
        return asked._replace(note=self._comparison.note)

    def _start(self, key: Any) -> None:
        members = self._members(key)
        for parameter in members:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        first = key[0] if isinstance(key, tuple) else key
        name = f"gradient.{self._names[first]}"
        if not isinstance(key, tuple) and key.grad.is_sparse and not self._sparse_as_dense:
            sparse = starts.sparse_allreduce(key.grad, self._reduction(name, 1.0))
            self._works[key] = (sparse.then(lambda tensor: [tensor]), members, [None])
            return
        packed = [self._compression.compress(_dense(each).detach()) for each in members]
        tensors = [tensor for tensor, _ in packed]
        reduction = self._reduction(name, self._predivide)
        if isinstance(key, tuple):
            work = starts.grouped_allreduce(tensors, tensors, reduction)
        else:
            one = starts.allreduce(tensors[0], tensors[0], reduction)
            work = one.then(lambda tensor: [tensor])
        self._works[key] = (work, members, [ctx for _, ctx in packed])

    def _store(self, work: Pending, members: list[Any], contexts: list[Any]) -> None:
        for parameter, result, ctx in zip(members, work.wait(), contexts):
            whole = self._compression.decompress(result, ctx)
            if parameter.grad.is_sparse:
                dims = parameter.grad.sparse_dim()
                sparse = self._stays_sparse and not whole.is_sparse
                parameter.grad = whole.to_sparse(dims) if sparse else whole
            elif whole.data_ptr() != parameter.grad.data_ptr():
                parameter.grad.detach().copy_(whole)


def _dense(parameter: Any) -> torch.Tensor:
    gradient: torch.Tensor = parameter.grad
    return gradient.to_dense() if gradient.is_sparse else gradient


def _divide(names: dict[Any, str], groups: int | Sequence[Parameters] | None) -> dict[Any, Any]:
    """Return the groups, as tuples, by parameter. Parameters outside are reduced alone."""
    if groups is None:
        return {}
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError(f"groups is {groups}: pass a number that is not negative")
        parameters = list(names)
        count = min(groups, len(parameters))
        ends = [len(parameters) * i // count for i in range(count + 1)] if count else [0]
        lists: Sequence[Parameters] = [parameters[a:b] for a, b in zip(ends, ends[1:])]
    else:
        lists = groups
    divided: dict[Any, Any] = {}
    for members in lists:
        key = tuple(members)
        for parameter in key:
            if parameter not in names or parameter in divided:
                raise ValueError(
                    "groups have a parameter twice, or one that the optimizer has not: pass lists"
                    " of its parameters"
                )
            divided[parameter] = key
    return divided


def _describe_groups(groups: dict[Any, Any], names: dict[Any, str]) -> str | None:
    """Return the sizes of the groups, and the names of their first parameters; None for none."""
    keys = dict.fromkeys(groups.values())
    return ", ".join(f"{len(key)} from {names[key[0]]}" for key in keys) or None
