# SPDX-License-Identifier: Apache-2.0
"""The end of a ``with`` block: what all ranks opened is closed, or aborted by an exception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


class Closing:
    """A context manager that closes, or aborts with the exception that has ended the block."""

    def close(self) -> None:
        """Close. Collective."""
        raise NotImplementedError

    def abort(self, reason: str | None = None) -> None:
        """End from this rank alone."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.abort(f"{kind.__name__}: {value}")
