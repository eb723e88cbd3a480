# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls, allow-untyped-defs
"""An optimizer whose gradients are those of all ranks.

The class of the result is a subclass of the class of the given optimizer and shares its state, so
schedulers and checkpoints take it for the given one. A hook of each parameter starts the reduction
when the gradient is complete; ``step()`` waits for all reductions.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from sparkring._horovod import ops
from sparkring._horovod.arguments import check_compression, check_type
from sparkring._horovod.ops import ReduceOp
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring.torch._horovod.adasum_optimizer import adasum_class
from sparkring.torch._horovod.arguments import check_optimizer
from sparkring.torch._horovod.compression import Compression
from sparkring.torch._horovod.gradients import Gradients
from sparkring.torch._horovod.shared_state import SharedState, shared_state

Named = Iterable[tuple[str, torch.nn.Parameter]]


class _DistributedOptimizer(SharedState):
    """The methods that the class of a distributed optimizer has before those of its own class."""

    _gradients: Gradients
    _synchronized = False
    _should_synchronize = True

    def synchronize(self) -> None:
        """Wait until all gradients are those of all ranks.

        Gradients that are missing on this rank are reduced as zeros.
        """
        self._gradients.finish()
        self._synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Let ``step()`` use the gradients as they are, after `synchronize`.

        >>> optimizer.synchronize()
        >>> torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        >>> with optimizer.skip_synchronize():
        ...     optimizer.step()
        """
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Set the number of backward passes whose gradients add up before a reduction."""
        self._gradients.set_passes(passes)

    def step(self, closure=None):
        """Wait for the gradients of all ranks, and take a step."""
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after"
                    " optimizer.synchronize(): the gradients are reduced twice. Call step() within"
                    " optimizer.skip_synchronize()",
                    stacklevel=2,
                )
            self.synchronize()
        self._synchronized = False
        return super().step(closure)

    def zero_grad(self, *args, **kwargs):
        """Clear the gradients, which no reduction may use."""
        if self._gradients.in_flight():
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() and before"
                " optimizer.step() or optimizer.synchronize(), while gradients are being reduced:"
                " call it after step()"
            )
        return super().zero_grad(*args, **kwargs)


def DistributedOptimizer(  # noqa: N802 (Horovod's name)
    optimizer: torch.optim.Optimizer,
    named_parameters: Named | None = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: ReduceOp = ops.Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[torch.nn.Parameter]] | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Make an optimizer that reduces gradients over all ranks.

    Gradients are reduced while the backward pass goes on, in whichever order they become ready. At
    ``step()`` a parameter without a gradient on this rank counts as zeros. Parameters whose
    ``requires_grad`` changes later are left out or taken in.

    Parameters
    ----------
    optimizer : Optimizer
        Of PyTorch. The result shares its parameter groups and its state.
    named_parameters : iterable of (str, Parameter)
        ``model.named_parameters()``, with all parameters of the optimizer, under names that all
        ranks have alike. By default parameters are numbered.
    compression : class
        Of `Compression`.
    backward_passes_per_step : int
        Backward passes whose gradients add up before they are reduced. The sum is not divided by
        their number.
    op : ReduceOp
        `Average`, `Sum` or `Adasum`. With `Adasum` the steps of the ranks are combined instead of
        their gradients.
    gradient_predivide_factor : float
        With `Average`: the part of the division by the number of ranks that is made before the sum.
    num_groups : int
        Older than ``groups``.
    groups : int, or list of lists of Parameter
        Groups of parameters that are reduced as one operation, or their number.
    sparse_as_dense : bool
        Whether sparse gradients are made dense before they are reduced. The optimizer gets dense
        gradients then, and SparseAdam sparse ones.
    process_set : ProcessSet
        The ranks whose gradients are reduced. Other ranks step with their own gradients.

    Returns
    -------
    Optimizer
        Of a subclass of the class of ``optimizer``.

    Raises
    ------
    ValueError
        For names that are missing or not unique, and for arguments that exclude each other.
    """
    check_optimizer(optimizer)
    check_compression(compression)
    check_type("backward_passes_per_step", backward_passes_per_step, int, "a whole number")
    if op not in (ops.Average, ops.Sum, ops.Adasum):
        raise ValueError(f"op is {op!r}: DistributedOptimizer takes Average, Sum and Adasum")
    if gradient_predivide_factor != 1.0 and op is not ops.Average:
        raise ValueError("gradient_predivide_factor is for op=Average alone")
    if backward_passes_per_step < 1:
        raise ValueError(f"backward_passes_per_step is {backward_passes_per_step}: pass 1 or more")
    if num_groups and groups is None:
        groups = num_groups
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    names = _name(parameters, named_parameters)
    if op is ops.Adasum:
        made = adasum_class(type(optimizer))
        return made(optimizer, names, compression, backward_passes_per_step, process_set)
    own = type(optimizer)
    kind: Any = type(own.__name__, (_DistributedOptimizer, own), {"__module__": own.__module__})
    result = kind.__new__(kind)
    result.__dict__.update(shared_state(optimizer))
    result._gradients = Gradients(
        names,
        compression,
        backward_passes_per_step,
        op,
        gradient_predivide_factor,
        groups,
        sparse_as_dense,
        isinstance(optimizer, torch.optim.SparseAdam),
        process_set,
    )
    return result


def _name(parameters: list[Any], named: Named | None) -> dict[Any, str]:
    """Return the names of the parameters, in the order of the optimizer."""
    if named is None:
        return {each: f"parameter.{i}" for i, each in enumerate(parameters)}
    pairs = list(named) if isinstance(named, Iterable) else [named]
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise ValueError("named_parameters are no pairs: pass model.named_parameters()")
    found = [name for name, _ in pairs]
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise ValueError(f"named_parameters have names twice: {', '.join(twice)}")
    names = {parameter: name for name, parameter in pairs}
    missing = sum(each not in names for each in parameters)
    if missing:
        raise ValueError(
            f"named_parameters miss {missing} parameters of the optimizer: pass"
            " model.named_parameters()"
        )
    return {each: names[each] for each in parameters}
