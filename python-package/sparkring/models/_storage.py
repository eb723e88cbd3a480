# SPDX-License-Identifier: Apache-2.0
"""Files of estimators: an archive of NumPy with the arrays, and JSON with all else."""

from __future__ import annotations

import json
import os
import uuid
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError, version

if TYPE_CHECKING:
    from collections.abc import Collection

    from sparkring.models._base import Estimator

FORMAT = 1
HEADER = "sparkring"


def save(estimator: Estimator, path: str | os.PathLike[str]) -> None:
    """Write an estimator. The file appears complete, or not at all."""
    state = {name: value for name, value in estimator.__getstate__().items() if name != "comm"}
    arrays = {name: plain_array(value) for name, value in state.items() if is_array(value)}
    values = {name: value for name, value in state.items() if name not in arrays}
    header = {
        "format": FORMAT,
        "version": version,
        "class": type(estimator).__name__,
        "values": values,
    }
    try:
        text = json.dumps(header, default=number)
    except TypeError as error:
        raise InvalidError(f"this {type(estimator).__name__} cannot be saved: {error}") from None
    part = Path(f"{os.fspath(path)}.{uuid.uuid4().hex}.part")  # other ranks may save, too
    try:
        with part.open("wb") as file:
            np.savez(file, **{HEADER: np.array(text)}, **arrays)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read(path: str | os.PathLike[str], known: Collection[str]) -> tuple[str, dict[str, Any]]:
    """Return the name of the class of an estimator, one of those that are known, and its state."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(str(arrays.pop(HEADER)))
    except (KeyError, ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidError(f"{os.fspath(path)} is no file of an estimator: {error}") from None
    if header["format"] > FORMAT or header["class"] not in known:
        raise InvalidError(
            f"{os.fspath(path)} has a {header['class']} of sparkring {header['version']}, which"
            f" sparkring {version} cannot read: install that version"
        )
    return header["class"], {**header["values"], **arrays, "comm": None}


def is_array(value: Any) -> bool:
    """Return whether a value is stored as an array."""
    return isinstance(value, np.ndarray)


def plain_array(values: Any) -> Any:
    """Convert arrays of Python strings, which an archive would pickle."""
    return values.astype(str) if values.dtype.kind == "O" else values


def number(value: Any) -> Any:
    """Convert numbers of NumPy."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"it has a {type(value).__name__}")
