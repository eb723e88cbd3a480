# SPDX-License-Identifier: Apache-2.0
"""Containers x dtypes: the inputs that every collective is tested with.

The numbers are small and whole, so that every dtype holds them, their sums and their products
exactly and a result can be compared to the bit, whatever the order of the additions.
"""

from __future__ import annotations

import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
DTYPES = ["bool", *INTEGERS, *FLOATS, *COMPLEX]
LOGICAL = {"land": np.logical_and, "lor": np.logical_or, "lxor": np.logical_xor}
BITWISE = {"band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor}
NUMERIC = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
OPS = [*NUMERIC, "avg", *LOGICAL, *BITWISE]
SHAPE = (5, 6)


class Case(NamedTuple):
    """One input: `x` holds the numbers of `values`, whose shape and dtype the result has."""

    name: str
    x: Any
    values: np.ndarray

    @property
    def is_number(self) -> bool:
        """Whether a number goes in, so that a number comes out."""
        return isinstance(self.values, np.generic)


def numbers(rank: int, dtype: str) -> np.ndarray:
    """Give the numbers of a rank: -2 to 2, without the sign or an imaginary part as dtypes need."""
    whole = (np.arange(30).reshape(SHAPE) * 7 + rank * 3) % 5 - 2
    if dtype in COMPLEX:
        return (whole + 1j * (rank + 1 - whole)).astype(dtype)
    return (abs(whole) if np.dtype(dtype).kind == "u" else whole).astype(dtype)


def strided(values: np.ndarray) -> np.ndarray:
    """Give the same numbers, with gaps between the columns."""
    wide = np.zeros((SHAPE[0], 2 * SHAPE[1]), values.dtype)
    wide[:, ::2] = values
    return wide[:, ::2]


def unaligned(values: np.ndarray) -> np.ndarray:
    """Give the same numbers, at addresses that do not suit their dtype."""
    memory = np.zeros(values.nbytes + 1, "uint8")[1:].view(values.dtype).reshape(SHAPE)
    memory[:] = values
    return memory


def read_only(values: np.ndarray) -> np.ndarray:
    frozen = values.copy()
    frozen.flags.writeable = False
    return frozen


ARRAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "array": lambda values: values,
    "fortran": np.asfortranarray,
    "strided": strided,
    "reversed": lambda values: values[::-1, ::-1].copy()[::-1, ::-1],
    "unaligned": unaligned,
    "read-only": read_only,
    "memoryview": memoryview,
    "strided memoryview": lambda values: memoryview(strided(values)),
    "little-endian": lambda values: values.astype(values.dtype.newbyteorder("=")),
}


def cases(rank: int) -> Iterator[Case]:
    """Generate the inputs of a rank."""
    for dtype in DTYPES:
        values = numbers(rank, dtype)
        for container, make in ARRAYS.items():
            yield Case(f"{container} of {dtype}", make(values), values)
        yield Case(f"0-d {dtype}", values[1, 1:2].reshape(()), values[1, 1:2].reshape(()))
        yield Case(f"empty {dtype}", values[:0], values[:0])
        yield Case(f"3-d {dtype}", values.reshape(5, 1, 6), values.reshape(5, 1, 6))
    for code, dtype in zip("bBhHiIqQfd", [*INTEGERS, "float32", "float64"]):
        values = numbers(rank, dtype).ravel()
        yield Case(f"array.array of {dtype}", array.array(code, values.tolist()), values)
    values = numbers(rank, "uint8").ravel()
    yield Case("bytes", values.tobytes(), values)
    yield Case("bytearray", bytearray(values.tobytes()), values)
    yield Case("int", 3 - rank, np.int64(3 - rank))
    yield Case("float", 1.5 - rank, np.float64(1.5 - rank))
    yield Case("complex", 1j - rank, np.complex128(1j - rank))
    yield Case("numpy.float32", np.float32(rank), np.float32(rank))


def is_defined(op: str, values: np.ndarray) -> bool:
    """Whether an op works on the dtype of the values."""
    if op in LOGICAL or op in BITWISE:
        return values.dtype.kind in "biu"
    if op == "avg":
        return values.dtype.kind != "b"
    return op in ("sum", "prod") or values.dtype.kind != "c"


def reduced(op: str, values: list[np.ndarray]) -> np.ndarray:
    """Work out what an allreduce of the values of all ranks gives."""
    stack = np.stack(values)
    dtype = stack.dtype
    if op == "avg":
        if dtype.kind == "c":
            mean = np.empty(stack.shape[1:], dtype)
            mean.real, mean.imag = stack.real.mean(axis=0), stack.imag.mean(axis=0)
            return mean
        mean = stack.sum(axis=0, dtype="float64") / len(values)
        return (np.trunc(mean) if dtype.kind in "iu" else mean).astype(dtype)
    if op in LOGICAL:
        return LOGICAL[op].reduce(stack, axis=0).astype(dtype)
    return (NUMERIC | BITWISE)[op].reduce(stack, axis=0, dtype=dtype)


def total(op: str, ranks: Sequence[Case], rank: int) -> Any:
    """Work out what the reduction of a case of every rank gives: a number where one goes in."""
    case, values = ranks[rank], reduced(op, [other.values for other in ranks])
    return type(case.values)(values) if case.is_number else np.asarray(values)


def check(result: Any, expected: Any, name: str = "") -> None:
    """Compare a result with what it should be: type, shape, dtype and bits."""
    assert type(result) is type(expected), name
    if expected is None:
        return
    assert result.dtype == expected.dtype, name
    assert result.shape == expected.shape, name
    assert result.tobytes() == expected.tobytes(), f"{name}: {result} is not {expected}"


def parted(rank: int, size: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Give the numbers of a rank, in `size` parts of this shape."""
    whole = np.resize(numbers(rank, dtype), (size * shape[0], *shape[1:]))
    return whole.astype(dtype)
