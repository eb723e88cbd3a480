# SPDX-License-Identifier: Apache-2.0
"""The error of Horovod's API, which scripts and `elastic.run` catch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sparkring._core import RingError


class HorovodInternalError(RuntimeError):
    """A collective has failed; ``__cause__`` is the `RingError` with status and rank."""


@contextlib.contextmanager
def internal_errors() -> Iterator[None]:
    """Raise errors of the core as `HorovodInternalError`."""
    try:
        yield
    except RingError as error:
        raise HorovodInternalError(f"{type(error).__name__}: {error}") from error
