# SPDX-License-Identifier: Apache-2.0
"""An operation on named tensors that was submitted to a reducer."""

from __future__ import annotations

from typing import Any, final

from sparkring._core import SubmissionBase


@final
class Submission(SubmissionBase):
    """An operation that was submitted to a `Reducer`.

    `wait` returns the result.
    """

    __slots__ = ()

    def wait(self) -> Any:
        """Wait until the operation is done, and return its result.

        Returns
        -------
        array, list of array or None
            As the method of `Reducer` says.

        Raises
        ------
        MismatchError
            When ranks pass different arrays or arguments under the name; later submissions work.
        PeerLostError, TimeoutError, AbortedError
            When a rank dies, hangs, misses the name or aborts.
        """
        return self._wait()

    def test(self) -> bool:
        """Return whether the operation is done, without waiting.

        Returns
        -------
        bool

        Raises
        ------
        MismatchError, PeerLostError, TimeoutError, AbortedError
            The error of `wait`, when the operation has failed.
        """
        return self._test()

    @property
    def rows(self) -> list[int] | None:
        """Rows from each rank of a complete allgather or alltoall; else an empty list or None."""
        return self._rows
