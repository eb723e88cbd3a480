# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Errors of the core as errors of PyTorch.

PyTorch's users expect a ``DistBackendError``. Its ``__cause__`` is the error of the core, with
status and rank. PyTorch's C++ keeps only the message of an error that passes through it (backward
of DistributedDataParallel), so the message has everything: the group, this rank, and what the core
says about the rank at fault and its host.
"""

from __future__ import annotations

from typing import NoReturn

from torch.distributed import DistBackendError


def fail(where: str, error: Exception) -> NoReturn:
    """Raise the error of PyTorch for an error of a rank; `where` is the group and the rank."""
    raise failure(where, error) from error


def failure(where: str, error: Exception) -> DistBackendError:
    """Make the error of PyTorch, caused by the given error."""
    made = DistBackendError(f"sparkring, {where}: {type(error).__name__}: {error}")
    made.__cause__ = error
    return made
