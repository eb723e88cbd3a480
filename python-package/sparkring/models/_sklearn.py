# SPDX-License-Identifier: Apache-2.0
"""Errors and warnings that are scikit-learn's, too, where a program has imported scikit-learn.

A program that catches ``sklearn.exceptions.NotFittedError`` has imported it. Without scikit-learn,
the error is an InvalidError alone, and the warning a RuntimeWarning.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

from sparkring._core import InvalidError


@functools.lru_cache(maxsize=16)
def joined(name: str, own: type, theirs: type | None) -> type:
    """Return a class with this name that is both."""
    return type(name, (own,) if theirs is None else (own, theirs), {"__module__": __name__})


def of_sklearn(name: str, own: type) -> Any:
    """Return the class of scikit-learn's exceptions that is of our class, too."""
    return joined(name, own, getattr(sys.modules.get("sklearn.exceptions"), name, None))


def not_fitted(kind: str) -> InvalidError:
    """Make the error for an estimator without results."""
    error: InvalidError = of_sklearn("NotFittedError", InvalidError)(
        f"this {kind} is not fitted: call fit() first"
    )
    return error


def warn_of_convergence(text: str) -> None:
    """Warn of a fit that did not converge, or of coefficients without an end."""
    warnings.warn(text, of_sklearn("ConvergenceWarning", RuntimeWarning), stacklevel=3)


def __getattr__(name: str) -> Any:
    """Find the classes, for pickles of errors."""
    own = {"NotFittedError": InvalidError, "ConvergenceWarning": RuntimeWarning}
    if name in own:
        return of_sklearn(name, own[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
