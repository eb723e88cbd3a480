# SPDX-License-Identifier: Apache-2.0
"""How far a loader got, as a dict of numbers and strings for a checkpoint.

``epoch`` is the epoch, and ``row`` the number of its rows that all ranks have taken. ``seed`` and
``shuffle`` determine the order of the rows. ``files`` is the digest of the files, and ``version``
the version of a table of Delta Lake or Iceberg, or None. ``ranks`` has pairs of a number of ranks
and the row until which they took rows of this epoch: one pair where the number of ranks has not
changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sparkring._core import InvalidError
from sparkring.data._parquet.deal import Segment


class State(NamedTuple):
    """The next row to take."""

    epoch: int = 0
    segments: tuple[Segment, ...] = ()

    @property
    def row(self) -> int:
        """The number of rows of the epoch that have been taken."""
        return self.segments[-1].row if self.segments else 0

    def after(self, size: int, row: int) -> State:
        """Return the state after some steps of a number of ranks in this epoch."""
        before = self.segments
        if before and before[-1].size == size:
            before = before[:-1]
        elif row == self.row:
            return self
        return self._replace(segments=(*before, Segment(size, row)))


def write(state: State, order: dict[str, Any]) -> dict[str, Any]:
    """Make the dict; ``order`` has seed, shuffle, version and files."""
    ranks = [list(segment) for segment in state.segments]
    return {"epoch": state.epoch, "row": state.row, **order, "ranks": ranks}


def read(given: Any, order: dict[str, Any], rows: int) -> State:
    """Read the dict, which must be for the same order of the same files."""
    if given is None:
        return State()
    try:
        state = State(
            _whole(given["epoch"]),
            tuple(Segment(_whole(size), _whole(row)) for size, row in given["ranks"]),
        )
        theirs = {name: given[name] for name in (*order, "row")}
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidError(
            f"state is {_short(given)}: pass what state() of a loader has returned"
        ) from error
    for name, value in order.items():
        if theirs[name] != value:
            raise _other(name, theirs[name], value)
    if theirs["row"] != state.row or not _is_possible(state.segments, rows):
        raise InvalidError(f"state is {_short(given)}: its numbers contradict each other")
    return state


def _is_possible(segments: tuple[Segment, ...], rows: int) -> bool:
    before = 0
    for size, row in segments:
        if size < 1 or not before < row < rows or (row - before) % size:
            return False
        before = row
    return True


def _whole(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(number)
    return number


def _short(given: Any) -> str:
    text = repr(dict(given) if isinstance(given, Mapping) else given)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _other(name: str, theirs: Any, ours: Any) -> InvalidError:
    if name == "files":
        return InvalidError(
            "state is of other files, or the files have changed since: the order of the rows is"
            " lost. Pass the files of the earlier run, or leave out state=. The files of"
            " write_parquet are those of one process: for later processes write them with"
            " frame.write.parquet"
        )
    return InvalidError(
        f"state has {name}={theirs!r} and {name}={ours!r} is passed: pass {name}={theirs!r}, so"
        " that the order of the rows stays"
    )
