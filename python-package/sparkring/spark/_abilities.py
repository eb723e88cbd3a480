# SPDX-License-Identifier: Apache-2.0
"""What a Spark can do. Its classes are asked, because versions of vendors have parts of later ones.

========================================  =======  =============
Ability                                   classic  Spark Connect
========================================  =======  =============
barrier stages of DataFrames              3.5      3.5
resources for stages of DataFrames        4.0      4.0
results that stay in Spark (``schema=``)  3.5      4.0
tags of jobs                              3.5
a column type that prefers large buffers  4.1      4.1
========================================  =======  =============
"""

from __future__ import annotations

import inspect
from typing import Any


def has_barrier(frame: Any) -> bool:
    """Return whether a stage of a DataFrame may be a barrier stage."""
    return _takes(frame.mapInArrow, "barrier")


def has_connect_barrier(session: Any) -> bool:
    """Return whether the server of a session of Spark Connect has barrier stages."""
    is_new = not str(session.version).startswith("3.4.")
    return is_new and has_barrier(type(session.range(1)))


def has_resources(frame: Any) -> bool:
    """Return whether a stage of a DataFrame takes resources."""
    return _takes(frame.mapInArrow, "profile")


def has_results(frame: Any) -> bool:
    """Return whether the result of a DataFrame can stay in Spark."""
    return hasattr(type(frame), "localCheckpoint")


def has_tags(context: Any) -> bool:
    """Return whether jobs of a context have tags."""
    return hasattr(context, "addJobTag")


def has_large_types(to_arrow_schema: Any) -> bool:
    """Return whether a schema of Arrow may have large types."""
    return _takes(to_arrow_schema, "prefers_large_types")


def _takes(method: Any, name: str) -> bool:
    return name in inspect.signature(method).parameters
