# SPDX-License-Identifier: Apache-2.0
"""How a call of Horovod's API combines arrays: the arguments that its reductions share."""

from __future__ import annotations

from typing import NamedTuple

from sparkring._horovod.arguments import describe
from sparkring._horovod.ops import Average, ReduceOp, Sum, choose
from sparkring._horovod.process_sets import ProcessSet, global_process_set


class Reduction(NamedTuple):
    """How arrays are combined over the ranks of a process set.

    ``prescale`` multiplies elements before the reduction, ``postscale`` after it.
    """

    name: str | None = None
    op: ReduceOp = Average
    prescale: float = 1.0
    postscale: float = 1.0
    process_set: ProcessSet = global_process_set
    note: str | None = None  # what ranks pass alike besides

    @classmethod
    def asked(
        cls,
        name: str | None,
        op: ReduceOp | None,
        average: bool | None,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
    ) -> Reduction:
        """Return the reduction of a call. Raise ValueError for an op that there is not."""
        return cls(name, choose(op, average), prescale_factor, postscale_factor, process_set)

    @classmethod
    def predivided(
        cls,
        name: str | None,
        op: ReduceOp,
        factor: float,
        process_set: ProcessSet = global_process_set,
    ) -> Reduction:
        """Return a reduction that divides an average by ``factor`` before it, by the rest after."""
        if factor == 1.0:
            return cls(name, op, process_set=process_set)
        if op is not Average:
            raise ValueError(
                "gradient_predivide_factor needs op=Average: leave it out for other ops"
            )
        return cls(name, Sum, 1.0 / factor, factor / process_set.size(), process_set)

    def factors(self) -> str:
        """Return a text of the factors that are not 1."""
        return describe(prescale_factor=self.prescale, postscale_factor=self.postscale)


AVERAGE = Reduction()
