# SPDX-License-Identifier: Apache-2.0
"""Comparison of the settings of an optimizer over the ranks, before its first reduction.

Gradients travel as operations of their own, so ranks with other names or groups would wait for
gradients that never come. The comparison is one more operation in the first step. What may change
later, the number of backward passes, stands in the notes of all reductions, too.
"""

from __future__ import annotations

from typing import Any

from sparkring._horovod import operations
from sparkring._horovod.arguments import describe, describe_names, join_texts
from sparkring._horovod.ops import Average
from sparkring._horovod.process_sets import ProcessSet
from sparkring.torch._horovod.compression import Compression


class Comparison:
    """Compares the settings of one optimizer."""

    def __init__(
        self, names: dict[Any, str], process_set: ProcessSet, passes: int, **settings: Any
    ) -> None:
        self._what = f"DistributedOptimizer.{next(iter(names.values()), '')}"
        self._process_set, self._names = process_set, describe_names(names.values())
        if settings["op"] is Average:
            settings["op"] = None
        settings["compression"] = _compression(settings["compression"])
        given = describe(backward_passes_per_step=passes, **settings)
        self._text = join_texts(given, self._names)
        self.set_passes(passes)

    def set_passes(self, passes: int) -> None:
        """Set the note of the reductions, which all ranks have to pass alike."""
        self.note = describe(backward_passes_per_step=passes) or None

    def is_done(self) -> bool:
        """Tell whether the ranks have compared these settings."""
        return (self._what, self._text) in self._process_set.group().compared

    def run(self) -> None:
        """Compare, unless it is done. Raise HorovodInternalError where the settings differ."""
        if not self.is_done():
            operations.compare(self._what, self._text, self._process_set).wait()
            self._process_set.group().compared.add((self._what, self._text))


def _compression(compression: Any) -> str | None:
    """Return the name of a compression; None for the one that does nothing."""
    kind = compression if isinstance(compression, type) else type(compression)
    return None if kind is Compression.none else kind.__name__
