# SPDX-License-Identifier: Apache-2.0
"""The pickler: pickle, or cloudpickle, which takes lambdas and definitions of a notebook."""

from __future__ import annotations

import contextlib
import importlib
import io
import pickle
import sys
from typing import Any


def find_cloudpickle() -> Any:
    """Find a cloudpickle, or else return pickle."""
    names = ["cloudpickle", "pyspark.cloudpickle"]  # importing PySpark would take long
    for name in reversed(names) if "pyspark" in sys.modules else names:
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    return pickle


def dump(file: io.BytesIO, x: object, least: int) -> list[memoryview]:
    """Pickle an object; by cloudpickle where pickle cannot.

    Return its buffers of `least` bytes or more, which the pickle leaves out.

    In a rank of `run`, classes of the script or notebook have the module ``__main__``, which is
    another program there. Under a launcher all ranks run the script, and pickle sends the names of
    its classes: what is received has the same class.
    """
    start = file.tell()
    try:
        return _dump(pickle.Pickler, file, x, least)
    except (pickle.PicklingError, AttributeError, TypeError):
        module = find_cloudpickle()
        if module is pickle:
            raise
        file.seek(start)
        file.truncate()
        return _dump(module.CloudPickler, file, x, least)


def _dump(pickler: Any, file: io.BytesIO, x: object, least: int) -> list[memoryview]:
    buffers: list[memoryview] = []

    def stays_in_pickle(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < least:
            return True
        buffers.append(raw)
        return False

    pickler(file, 5, buffer_callback=stays_in_pickle).dump(x)
    return buffers
