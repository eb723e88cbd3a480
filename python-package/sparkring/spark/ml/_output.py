# SPDX-License-Identifier: Apache-2.0
"""The outputs of a network: arrays for the columns of a prediction, and their types in Spark."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparkring._core import InvalidError

TYPES = {
    "bool": "boolean",
    "int8": "tinyint",
    "uint8": "smallint",
    "int16": "smallint",
    "uint16": "int",
    "int32": "int",
    "uint32": "bigint",
    "int64": "bigint",
    "float16": "float",
    "float32": "float",
    "float64": "double",
}


class Output(NamedTuple):
    """The type of an output: that of its numbers in Spark, and whether a row has an array."""

    element: str
    is_array: bool

    @property
    def sql(self) -> str:
        """The type in Spark."""
        return f"array<{self.element}>" if self.is_array else self.element


def squeeze(output: Any, dimensions: int) -> Any:
    """Make a column of numbers a vector, where labels are a vector."""
    shape: Any = getattr(output, "shape", ())
    if dimensions == 1 and len(shape) == 2 and shape[1] == 1:
        return output[:, 0]
    return output


def arrays(output: Any, postprocess: Any, names: list[str]) -> list[Any]:
    """Return an array for each column."""
    found = _numpy(output)
    if postprocess is not None:
        found = postprocess(found)
    if isinstance(found, dict):
        missing = [name for name in names if name not in found]
        if missing:
            raise InvalidError(
                f"outputCols has {missing[0]!r}, and the outputs are {', '.join(map(repr, found))}"
            )
        found = [found[name] for name in names]
    elif not isinstance(found, (list, tuple)):
        found = [found]
    if len(found) != len(names):
        raise InvalidError(
            f"there are {len(found)} outputs, and outputCols has {len(names)}"
            f" ({', '.join(names)}): name each output, or choose outputs in postprocess"
        )
    return [_column(np.asarray(values)) for values in found]


def _numpy(output: Any) -> Any:
    if isinstance(output, dict):
        return {name: _numpy(values) for name, values in output.items()}
    if isinstance(output, (list, tuple)):
        return [_numpy(values) for values in output]
    if hasattr(output, "detach"):
        output = output.detach().cpu()
        return output.float().numpy() if str(output.dtype) == "torch.bfloat16" else output.numpy()
    return np.asarray(output)


def _column(values: Any) -> Any:
    """Flatten the arrays of rows; an array of one number is a number."""
    values = squeeze(values, 1)
    return values if values.ndim == 1 else values.reshape(len(values), -1)


def describe(found: list[Any]) -> list[Output]:
    """Describe the outputs."""
    outputs = []
    for values in found:
        name = "string" if values.dtype.kind in "UO" else TYPES.get(str(values.dtype))
        if name is None:
            raise InvalidError(
                f"an output is of type {values.dtype}, for which Spark has no type: convert it in"
                " postprocess"
            )
        outputs.append(Output(name, values.ndim > 1))
    return outputs
