# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls, allow-untyped-defs
"""An optimizer that takes its own step and combines the steps of all ranks by Adasum.

Adasum combines changes of parameters, so it works with any optimizer: each rank steps with its own
gradients, the difference to the earlier parameters is combined, and the result is applied.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from sparkring._horovod import ops
from sparkring._horovod.process_sets import ProcessSet
from sparkring._horovod.reduction import Reduction
from sparkring.torch._horovod import starts
from sparkring.torch._horovod.comparison import Comparison
from sparkring.torch._horovod.shared_state import SharedState, shared_state


class _AdasumOptimizer(SharedState):
    """The methods that the class of an Adasum optimizer has before those of its own class."""

    _names: dict[Any, str]
    _compression: Any
    _passes: int
    _process_set: ProcessSet
    _comparison: Comparison
    _counted = 0

    def synchronize(self) -> None:
        """Do nothing: ``step()`` combines steps, and gradients stay those of this rank."""

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Refuse: there are no reduced gradients to change before ``step()``."""
        raise AssertionError(
            "skip_synchronize() has no meaning with op=Adasum, which combines steps: call step()"
        )
        yield

    def step(self, closure=None):
        """Take a step of this rank and combine it with those of all ranks.

        Of ``backward_passes_per_step`` calls the last one steps. A rank outside the process set
        steps alone, in each call.
        """
        if not self._process_set.included():
            return super().step(closure)
        self._counted += 1
        if self._counted % self._passes:
            return None if closure is None else closure()
        self._comparison.run()
        moved = [each for each in self._names if each.requires_grad]
        before = [each.detach().clone() for each in moved]
        loss = super().step(closure)
        works = []
        how = Reduction(op=ops.Adasum, process_set=self._process_set, note=self._comparison.note)
        for parameter, start in zip(moved, before):
            small, ctx = self._compression.compress(parameter.detach() - start)
            named = how._replace(name=f"step.{self._names[parameter]}")
            works.append((starts.allreduce(small, None, named), ctx))
        for parameter, start, (work, ctx) in zip(moved, before, works):
            whole = self._compression.decompress(work.wait(), ctx)
            parameter.detach().copy_(start + whole)
        return loss


def adasum_class(own: type[torch.optim.Optimizer]) -> Any:
    """Return what makes an Adasum optimizer of an optimizer of a class."""
    kind: Any = type(own.__name__, (_AdasumOptimizer, own), {"__module__": own.__module__})

    def make(optimizer, names, compression, passes, process_set):
        result = kind.__new__(kind)
        result.__dict__.update(shared_state(optimizer))
        result._names, result._compression = names, compression
        result._passes, result._process_set = passes, process_set
        result._comparison = Comparison(
            names,
            process_set,
            passes,
            op=ops.Adasum,
            compression=compression,
        )
        return result

    return make
