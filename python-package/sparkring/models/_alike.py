# SPDX-License-Identifier: Apache-2.0
"""Small values that all ranks exchange as JSON, which needs no token, and the checks of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._agree import agree
from sparkring._core import InvalidError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._communicator import Communicator


def gather(comm: Communicator, value: Any) -> list[Any]:
    """Return the values of all ranks, in rank order. Collective."""
    text = agree(comm, lambda: json.dumps(value, default=plain).encode())
    lengths = comm.allgather(np.array([len(text)])).ravel()
    texts = comm.allgatherv(np.frombuffer(text, np.uint8)).tobytes()
    ends = np.cumsum(lengths)
    return [json.loads(texts[end - length : end]) for length, end in zip(lengths, ends)]


def plain(value: Any) -> Any:
    """Convert what JSON does not know: arrays and numbers of NumPy, and tables by their values.

    Raises
    ------
    InvalidError
        For other values: their text would be a value that the caller does not have.
    """
    if hasattr(value, "__array__"):
        return np.asarray(value).tolist()
    raise InvalidError(
        f"{brief(value)} is of type {type(value).__name__}: convert it to a number or a string"
    )


def setting(value: Any) -> Any:
    """Convert a setting for `gather`; a setting of another type by its text, for the error."""
    try:
        return json.loads(json.dumps(value, default=plain))
    except (TypeError, ValueError):
        return repr(value)


def check_settings(comm: Communicator, settings: dict[str, Any]) -> None:
    """Refuse settings that differ: each rank would fit another model. Collective."""
    all_settings = gather(comm, {name: setting(value) for name, value in settings.items()})
    for rank, theirs in enumerate(all_settings):
        for name, value in theirs.items():
            if json.dumps(value) != json.dumps(all_settings[0].get(name)):  # NaN is not NaN
                raise error_of(
                    rank,
                    f"rank {rank} has {name}={brief(value)} and rank 0 has"
                    f" {name}={brief(all_settings[0].get(name))}: pass the same on every rank",
                )


def join(comm: Communicator, what: str, mine: Any) -> Any:
    """Return the value that all ranks have; None marks a rank that cannot know it. Collective."""
    found = gather(comm, mine)
    known = [(rank, value) for rank, value in enumerate(found) if value is not None]
    for rank, value in known:
        if value != known[0][1]:
            raise error_of(
                rank,
                f"rank {rank} has {what} {brief(value)} and rank {known[0][0]} has"
                f" {brief(known[0][1])}: pass the same columns on every rank",
            )
    return known[0][1] if known else None


def array_of(values: Any) -> NDArray[Any]:
    """Return an array. NumPy would make strings of numbers beside strings: they stay objects."""
    found = np.asarray(values)
    if found.dtype.kind != "U" or hasattr(values, "__array__"):
        return found
    objects = np.asarray(values, object)
    return found if all(isinstance(value, str) for value in objects.ravel()) else objects


def counts_of(values: Any, what: str) -> dict[Any, int]:
    """Count each value of this rank.

    Raises
    ------
    InvalidError
        For missing values, strings beside numbers, and values of other types.
    """
    found = array_of(values).ravel()
    if found.dtype.kind == "O":
        found = array_of(found.tolist())
    if found.dtype.kind in "SMmcV":
        raise InvalidError(
            f"{what} must not be of type {found.dtype.name}: convert them to numbers or strings, as"
            " by astype(str)"
        )
    if found.dtype.kind == "O" or (found.dtype.kind == "f" and np.isnan(found).any()):
        kinds = sorted({type(value).__name__ for value in found.tolist()})
        raise InvalidError(
            f"{what} has missing values, strings beside numbers or other types"
            f" ({', '.join(kinds)}): leave them out, or convert all to numbers or strings"
        )
    unique, counts = np.unique(found, return_counts=True)
    return dict(zip(unique.tolist(), counts.tolist()))


def distinct(comm: Communicator, values: list[Any]) -> list[Any]:
    """Return the sorted distinct values of all ranks. Collective."""
    found = {value for part in gather(comm, values) for value in part}
    kinds = {isinstance(value, str) for value in found}
    if len(kinds) > 1:
        raise InvalidError("some values are strings and others are numbers: make them alike")
    return sorted(found)


def brief(value: Any) -> str:
    """Describe a value in a few words."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def error_of(rank: int, text: str) -> InvalidError:
    """Make the error of a rank."""
    error = InvalidError(text)
    error.rank = rank
    return error
