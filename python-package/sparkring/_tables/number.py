# SPDX-License-Identifier: Apache-2.0
"""Numbers from Python objects, and the common parts of all conversions to numbers.

Spark's columns come as Arrow arrays, as pandas series or as lists of Python objects. Each column
becomes a NumPy array. Its first dimension is the rows. A null is an error, or becomes the given
number. A value that is no number is an error, with the remedy.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from sparkring._core import InvalidError
from sparkring._tables import vector

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import TypeAlias

    Missing: TypeAlias = Union[float, None]
    Fill: TypeAlias = Union[Missing, str, bytes, Mapping[Any, Any]]  # a Mapping by columns


def is_number(dtype: np.dtype[Any]) -> bool:
    """Return whether arrays of this dtype hold numbers or booleans."""
    return dtype.kind in "biuf"


def unsupported(what: str) -> InvalidError:
    """Make the error for a column of any other type."""
    return InvalidError(
        f"it holds {what}, and a batch holds numbers, booleans, arrays of these that are all of"
        " one length, and vectors of Spark ML. Leave it out with columns=, or make numbers of it in"
        " Spark (cast, unix_timestamp, StringIndexer)"
    )


def nulls(count: int, rows: int, arrays: bool = False) -> InvalidError:
    """Make the error for `count` nulls."""
    what = f"{count:,} null{'s' * (count != 1)} in {rows:,} {'arrays' if arrays else 'values'}"
    way = "" if arrays else ", or pass the number that replaces them as missing="
    return InvalidError(f"it has {what}: fill or drop them in Spark (df.na){way}")


# Remedies by the arguments of `batches` and `parquet`, and the text of other callers.
ARGUMENTS = {
    ", or pass the number that replaces them as missing=": "",
    ", or leave the column out with columns=": "",
    "Leave it out with columns=, or make": "Make",
}


def without_arguments(error: InvalidError) -> str:
    """Return the text of an error for callers that have no such arguments."""
    return functools.reduce(lambda text, pair: text.replace(*pair), ARGUMENTS.items(), str(error))


# The remedy for lists of several lengths.
ALIKE = (
    "Pad or cut them in Spark, as in slice(concat(tokens, array_repeat(0, 128)), 1, 128), or leave"
    " the column out with columns="
)


def unlike(first: Any, other: Any, row: int) -> InvalidError:
    """Make the error for arrays of several shapes."""
    return InvalidError(
        f"its arrays are not of one length: that of the first row has {first} elements, that of row"
        f" {row:,} has {other}. {ALIKE}"
    )


def missing_in(fill: Fill, name: Any) -> Any:
    """Return what replaces nulls in a column."""
    return fill.get(name) if isinstance(fill, Mapping) else fill


def check_names(fill: Fill, names: Sequence[Any]) -> None:
    """Refuse names of columns that are not there."""
    unknown = [name for name in fill if name not in names] if isinstance(fill, Mapping) else []
    if unknown:
        raise InvalidError(f"missing names {unknown}, and the columns are {list(names)}")


def missing_number(fill: Fill, name: Any) -> Missing:
    """Return the number that replaces nulls in a column; None if there is none."""
    found = missing_in(fill, name)
    return None if isinstance(found, (str, bytes)) else found


def filler(dtype: np.dtype[Any], missing: Missing) -> np.generic:
    """Return what replaces nulls in arrays of a dtype. A number that it cannot hold is an error."""
    try:
        with np.errstate(all="ignore"):
            held: Any = np.asarray(missing).astype(dtype)[()]
        is_rounded = isinstance(missing, float) and np.isfinite(missing) == np.isfinite(held)
        if is_rounded or held.item() == missing:
            return held  # type: ignore[no-any-return]
    except OverflowError:
        pass
    advice = "pass a number that it can hold"
    if dtype.kind in "biu":
        advice += (
            ", or a number with a point, as in missing=-1.0, which makes floats of whole numbers"
            " and booleans"
        )
    raise InvalidError(f"it has nulls, and {dtype} cannot hold missing={missing!r}: {advice}")


def widen(values: NDArray[Any], missing: Missing) -> NDArray[Any]:
    """Convert whole numbers and booleans to floats where a float may replace nulls.

    All chunks are converted alike, also chunks without nulls.
    """
    if isinstance(missing, float) and values.dtype.kind in "biu":
        return values.astype(np.float64)
    return values


def without_nan(values: NDArray[Any], missing: Missing) -> NDArray[Any]:
    """Treat NaN as null, because pandas converts nulls to NaN."""
    if values.dtype.kind == "f" and _may_have_nan(values):
        found = np.isnan(values)
        count = int(found.sum())
        if count and missing is None:
            raise nulls(count, values.size)
        if count:
            values = np.where(found, filler(values.dtype, missing), values)
    return widen(values, missing)


def _may_have_nan(values: NDArray[Any]) -> bool:
    """Return whether the sum is NaN, a fast test. Infinities may have this sum, too."""
    with np.errstate(invalid="ignore", over="ignore"):
        return bool(np.isnan(values.sum()))


def from_objects(values: Sequence[Any], missing: Missing) -> NDArray[Any]:
    """Make an array of Python objects: numbers, lists, arrays or vectors of Spark ML."""
    example: Any = next((value for value in values if value is not None), None)
    count = sum(map(operator.is_, values, itertools.repeat(None)))
    if isinstance(example, (str, bytes, bytearray)):
        raise unsupported(type(example).__name__)
    compound = vector.is_vector(example) or np.ndim(example) > 0
    if count and (compound or missing is None):
        raise nulls(count, len(values), arrays=compound)
    if vector.is_vector(example):
        return vector.from_objects(values)
    if compound:
        return _from_arrays(values, missing)
    if count:
        return _from_optional(values, missing)
    return widen(_from_scalars(values), missing)


def _from_optional(values: Sequence[Any], missing: Missing) -> NDArray[Any]:
    """Make an array of scalars and None. The scalars decide the dtype, if there are any."""
    present = [value for value in values if value is not None] or [missing]
    numbers = widen(_from_scalars(present), missing)
    is_null = np.fromiter((value is None for value in values), bool, len(values))
    result = np.full(len(values), filler(numbers.dtype, missing))
    result[~is_null] = numbers[: len(values) - is_null.sum()]
    return result


def _are_alike(values: Sequence[Any]) -> bool:
    """Return whether all values are arrays of numbers of one shape, without a loop in Python."""
    if set(map(type, values)) != {np.ndarray}:
        return False
    dtypes = set(map(operator.attrgetter("dtype"), values))
    shapes = set(map(operator.attrgetter("shape"), values))
    return all(map(is_number, dtypes)) and len(shapes) == 1


def _from_scalars(values: Sequence[Any]) -> NDArray[Any]:
    try:
        numbers = np.array(values)
    except ValueError:  # some values are no scalars
        numbers = np.empty(0, object)
    if is_number(numbers.dtype) and numbers.ndim == 1:
        return numbers
    raise unsupported(" and ".join(sorted({type(value).__name__ for value in values})))


def _from_arrays(values: Sequence[Any], missing: Missing) -> NDArray[Any]:
    """Make an array of arrays or lists, which may be nested."""
    if _are_alike(values):
        numbers = widen(np.concatenate(values), missing)
        return numbers.reshape((len(values), *values[0].shape))
    lengths = np.array([len(value) for value in values])
    others = np.flatnonzero(lengths != lengths[0])
    if len(others):
        raise unlike(lengths[0], lengths[others[0]], int(others[0]))
    flat = [part for value in values for part in value]
    parts = from_objects(flat, missing) if flat else np.empty(0)
    return parts.reshape((len(values), lengths[0], *parts.shape[1:]))
