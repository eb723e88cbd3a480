# SPDX-License-Identifier: Apache-2.0
"""The pickler: pickle, or cloudpickle, which takes lambdas and definitions of a notebook."""

from __future__ import annotations

import contextlib
import importlib
import io
import pickle
import sys
from collections.abc import Callable
from typing import Any


def find_cloudpickle() -> Any:
    """Find a cloudpickle, or else return pickle."""
    names = ["cloudpickle", "pyspark.cloudpickle"]  # importing PySpark would take long
    for name in reversed(names) if "pyspark" in sys.modules else names:
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    return pickle


def dump(file: io.BytesIO, x: object, leave_out: Callable[[pickle.PickleBuffer], bool]) -> None:
    """Pickle an object; by cloudpickle where pickle cannot.

    In a rank of `run`, classes of the script or notebook have the module ``__main__``, which is
    another program there. Under a launcher all ranks run the script, and pickle sends the names of
    its classes: what is received has the same class.
    """
    start = file.tell()
    try:
        pickle.Pickler(file, 5, buffer_callback=leave_out).dump(x)
    except (pickle.PicklingError, AttributeError, TypeError):
        module = find_cloudpickle()
        if module is pickle:
            raise
        file.seek(start)
        file.truncate()
        module.CloudPickler(file, 5, buffer_callback=leave_out).dump(x)
