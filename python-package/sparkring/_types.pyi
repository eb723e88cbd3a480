# SPDX-License-Identifier: Apache-2.0
# Types of arrays and numbers, for type checkers.
#
# NumPy scalars have the buffer protocol, and Python's bool, int and float have not, so the order of
# overloads is: out, array of NumPy, number, any other buffer, array of another library.
from collections.abc import Sequence
from typing import Any, Protocol, TypedDict, TypeVar

from numpy import generic
from numpy.typing import NDArray
from typing_extensions import Buffer, ParamSpec, TypeAlias

Number: TypeAlias = bool | int | float | complex | generic
# NumPy's stubs make an array a Buffer only from Python 3.12 on.
Array: TypeAlias = Buffer | NDArray[Any]
Shape: TypeAlias = int | Sequence[int]
Counts: TypeAlias = Sequence[int] | NDArray[Any]

class DLPack(Protocol):
    def __dlpack__(self) -> Any: ...

class Column(Protocol):  # of pandas or pyarrow
    def __array__(self) -> NDArray[Any]: ...

class ArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

class TorchDtype(Protocol):
    @property
    def is_floating_point(self) -> bool: ...

class Scaled(TypedDict, total=False):
    dtype: str | None
    prescale: float
    postscale: float

Other: TypeAlias = DLPack | Column | ArrayInterface  # arrays of other libraries
Rows: TypeAlias = Array | Other
Operand: TypeAlias = Number | Array | Other
Output = TypeVar("Output", bound=Rows)
Library = TypeVar("Library", bound=Other)
Scalar = TypeVar("Scalar", bound=generic)
Given = ParamSpec("Given")
Value = TypeVar("Value")
