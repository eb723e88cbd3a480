# SPDX-License-Identifier: Apache-2.0
"""Rows as numbers: a matrix, and columns beside it, from NumPy, pandas or Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkring._core import InvalidError
from sparkring._tables.arrow import ArrowTable
from sparkring._tables.frame import FrameTable
from sparkring._tables.source import Column, Table, read
from sparkring.models._alike import array_of, brief
from sparkring.models._doubles import check_exact, check_whole_numbers, doubles
from sparkring.models._formats import is_lazy, readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from typing_extensions import TypeAlias

    Array: TypeAlias = NDArray[np.float64]


LARGEST = 1e150  # larger numbers have no square


class Numbers(NamedTuple):
    """The rows of a rank or of a batch.

    Attributes
    ----------
    x : array of shape (rows, columns), or sparse array
        The features.
    columns : list of str or None
        The columns of the table that ``x`` was made of; None for a plain array.
    names : list of str or None
        The name of each feature. A column of arrays has a feature for each element.
    roles : dict of arrays
        Further columns by role, such as ``"y"``, as they were given.
    """

    x: Any
    columns: list[str] | None
    names: list[str] | None
    roles: dict[str, NDArray[Any]]


def is_parts(batch: Any) -> bool:
    """Return whether this is a tuple or a list of arrays, the features first."""
    if not isinstance(batch, (tuple, list)) or not batch:
        return False
    return getattr(batch[0], "ndim", 0) == 2 or _table(batch[0]) is not None


def is_batches(x: Any) -> bool:
    """Return whether this is an iterable of batches, and not a table, an array or rows."""
    if isinstance(x, list) and x and (isinstance(x[0], Mapping) or is_parts(x[0])):
        return True
    plain = isinstance(x, (np.ndarray, list, tuple)) or hasattr(x, "__array__")
    return not plain and not hasattr(x, "toarray") and _table(x) is None and hasattr(x, "__iter__")


def numbers_of(x: Any, features: Sequence[str] | None, roles: Mapping[str, Any]) -> Numbers:
    """Read rows. A role may be the name of a column of the table, or a list of names.

    Raises
    ------
    InvalidError
        For columns that are missing or hold no numbers, and roles of another length.
    """
    x = readable(x)
    table = _table(x)
    if table is not None:
        return _of_table(x, table, features, roles)
    if features is not None or any(isinstance(role, str) for role in roles.values()):
        raise InvalidError("names of columns are for tables: X is a plain array")
    matrix = _matrix(x)
    given = {name: array_of(role) for name, role in roles.items() if role is not None}
    return Numbers(matrix, None, None, fitting(given, matrix.shape[0]))


def _of_table(
    x: Any, table: Table, features: Sequence[str] | None, roles: Mapping[str, Any]
) -> Numbers:
    given: dict[str, NDArray[Any]] = {}
    used: set[str] = set()
    for name, role in roles.items():
        if names := _names(role, table):
            given[name] = _side_by_side([(column, _column(x, column)) for column in names])
            used.update(names)
        elif role is not None:
            given[name] = array_of(role)
    rest = [name for name in table.names if name not in used]
    columns = list(features) if features is not None else rest
    if not columns:
        raise InvalidError("there are no features: name columns of the table in features")
    parts = [_feature(table, name, _is_whole(x, name)) for name in columns]
    named = [label for name, part in zip(columns, parts) for label in _labels(name, part)]
    return Numbers(np.concatenate(parts, axis=1), columns, named, fitting(given, table.rows))


def _table(x: Any) -> Table | None:
    """Find the kind of a table; missing values become NaN."""
    if is_lazy(x):
        return None
    if hasattr(x, "columns") and hasattr(x, "to_numpy"):
        return FrameTable(x, np.nan)
    if hasattr(x, "schema") and hasattr(x, "num_rows"):
        return ArrowTable(x, np.nan)
    return None


def _feature(table: Table, name: str, is_whole: bool) -> Array:
    """Return a column as a matrix; a column of arrays has several columns."""
    _check_name(name, list(table.names))
    if table.rows == 0:  # arrays have no length here
        return np.zeros((0, 1))
    try:
        found = np.asarray(read(table, Column(name, (name,), False)), np.float64)
    except InvalidError as error:
        raise InvalidError(
            f"column {name!r} holds no numbers and no arrays of one length: name the features, as"
            " in features=[...], or make numbers of the column"
        ) from error
    if is_whole:
        check_whole_numbers(float(np.abs(found).max(initial=0)), f"column {name!r}")
    return found[:, None] if found.ndim == 1 else found


def names_of(role: Any) -> list[str]:
    """List the columns of a role that names columns: a string, or a list of strings."""
    if isinstance(role, str):
        return [role]
    is_list = isinstance(role, (list, tuple)) and all(isinstance(name, str) for name in role)
    return list(role) if is_list else []


def _names(role: Any, table: Table) -> list[str]:
    """List the columns of a role. A list of strings may be a value for each row, too."""
    names = names_of(role)
    are_values = len(names) == table.rows and not set(names) & set(table.names)
    return [] if are_values and not isinstance(role, str) else names


def _labels(name: str, part: NDArray[Any]) -> list[str]:
    if part.shape[1] == 1:
        return [str(name)]
    return [f"{name}_{place}" for place in range(part.shape[1])]


def _matrix(x: Any) -> Any:
    matrix = _sparse(x) if is_sparse(x) else doubles(x, "X")
    if matrix.ndim == 2:
        return matrix
    if matrix.size == 0:
        return np.zeros((0, 0))
    raise InvalidError(
        f"X has {matrix.ndim} dimension{'s' * (matrix.ndim != 1)}, and a model needs a row for each"
        " row. Reshape your data, as by X.reshape(-1, 1) for one feature"
    )


def is_sparse(x: Any) -> bool:
    """Return whether this is a sparse matrix or array of SciPy."""
    return hasattr(x, "tocsr") and hasattr(x, "toarray")


def _sparse(x: Any) -> Any:
    """Convert a sparse array to one of doubles whose rows can be sliced."""
    found = x.tocsr()
    check_exact(found.data, "X")
    return found.astype(np.float64)


def dense(x: Any) -> Array:
    """Return rows that may be sparse as an array."""
    found: Array = x.toarray() if is_sparse(x) else x
    return found


def fitting(roles: dict[str, NDArray[Any]], rows: int) -> dict[str, NDArray[Any]]:
    """Check that roles have a value, or several values side by side, for each row."""
    found = {}
    for name, values in roles.items():
        if values.ndim == 0 or len(values) != rows:
            raise InvalidError(f"X has {rows} rows and {name} has shape {values.shape}")
        found[name] = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    return found


def _column(x: Any, name: str) -> NDArray[Any]:
    names = list(x.columns) if hasattr(x, "columns") and hasattr(x, "to_numpy") else x.schema.names
    _check_name(name, list(names))
    if hasattr(x, "schema") and hasattr(x, "num_rows"):
        column = x.column(x.schema.get_field_index(name))
        return np.asarray(column.to_numpy(zero_copy_only=False) if _is_array(column) else column)
    return np.asarray(x[name])


def _check_name(name: str, names: list[Any]) -> None:
    """Refuse a name that no column has, or several."""
    if name not in names:
        raise InvalidError(f"there is no column {name!r}: there are {brief(names)}")
    if names.count(name) > 1:
        raise InvalidError(f"there are several columns of this name, {name!r}: rename them")


def _is_whole(x: Any, name: str) -> bool:
    """Return whether a column of a table has whole numbers, or arrays of whole numbers."""
    if hasattr(x, "schema") and hasattr(x, "num_rows"):
        at = x.schema.get_field_index(name)
        kind = x.schema.field(at).type if at >= 0 else None
        kind = getattr(kind, "value_type", kind)
        return str(kind).startswith(("int", "uint"))
    dtype = getattr(x[name], "dtype", None) if name in x.columns else None
    return getattr(dtype, "kind", "") in ("i", "u")


def _side_by_side(columns: list[tuple[str, NDArray[Any]]]) -> NDArray[Any]:
    """Join the columns of a role. Numbers beside other numbers become doubles."""
    kinds = {values.dtype.kind for _, values in columns}
    if len(kinds) > 1 and kinds <= set("biufmM"):
        for name, values in columns:
            check_exact(values, f"column {name!r}")
    return np.stack([values for _, values in columns], axis=1)


def _is_array(column: Any) -> bool:
    return not hasattr(column, "chunks")


def check_finite(
    x: Any, names: Sequence[str] | None, first: int = 0, limit: float = LARGEST
) -> None:
    """Refuse values that are NaN or infinite, or too large to be squared and added."""
    if is_sparse(x):
        bad = np.unique(x.indices[~(np.abs(x.data) < limit)])
    else:
        largest: Array = np.abs(x).max(axis=0, initial=0)
        bad = np.flatnonzero(~(largest < limit))  # also NaN
    if len(bad) == 0:
        return
    column = int(bad[0])
    name = repr(names[column]) if names else str(column)
    rows = np.flatnonzero(~(np.abs(dense(x[:, [column]])) < limit))
    raise InvalidError(
        f"column {name} of X is NaN, infinite or too large in {len(rows)}"
        f" row{'s' * (len(rows) > 1)}, first in row {first + int(rows[0])} of this rank:"
        " leave out these rows, fill the values or scale the column"
    )


def numbers_in(values: Any, what: str, first: int = 0) -> Array:
    """Return a column of finite numbers, from the row ``first`` of this rank on."""
    found = doubles(values, what)
    if found.ndim != 1:
        raise InvalidError(f"{what} has shape {found.shape}: pass one number for each row")
    if not np.isfinite(found).all():
        row = int(np.flatnonzero(~np.isfinite(found))[0])
        raise InvalidError(
            f"{what} is {found[row]} in row {first + row} of this rank: leave out this row"
        )
    return found


def weights_in(values: Any, first: int = 0) -> Array:
    """Return a column of weights, from the row ``first`` of this rank on."""
    weight = numbers_in(values, "sample_weight", first)
    if (weight < 0).any():
        raise InvalidError("sample_weight has negative numbers")
    return weight


def offset_in(values: Any, rows: int) -> Array:
    """Return the offsets of rows that are predicted."""
    return numbers_in(fitting({"offset": np.asarray(values)}, rows)["offset"], "offset")


def scored(y: Any, sample_weight: Any, rows: int) -> tuple[NDArray[Any], Array]:
    """Return the responses and the weights of rows whose predictions are scored."""
    given = {"y": array_of(y)}
    if sample_weight is not None:
        given["sample_weight"] = np.asarray(sample_weight)
    found = fitting(given, rows)
    weight = weights_in(found["sample_weight"]) if sample_weight is not None else np.ones(rows)
    if not weight.sum() > 0:
        raise InvalidError("there are no rows with a weight to score")
    return found["y"], weight
