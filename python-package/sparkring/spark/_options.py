# SPDX-License-Identifier: Apache-2.0
"""The options of `sparkring.spark.run`, with their types, for type checkers."""

from __future__ import annotations

from os import PathLike
from typing import Any, Literal, TypedDict


class Options(TypedDict, total=False):
    """Keyword arguments of `run`; from `job` on, arguments of `sparkring.init`.

    ``backend="mpi"`` always fails: no launcher of MPI has started the tasks.
    """

    spark: Any
    resources: Any
    results: str | PathLike[str] | None
    timeout: float
    max_restarts: int
    recovery: Literal["relaunch", "replace"]
    verbose: int
    encryption: bool | None
    job: str | None
    ports: tuple[int, int] | None
    call_timeout: float
    warn_after: float | None
    algorithms: str | None
    shared_memory: bool
    connections: int | None
    backend: str | None
    timeline: str | PathLike[str] | None
