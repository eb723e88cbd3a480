# SPDX-License-Identifier: Apache-2.0
"""The numbers of this process: among all ranks, on its host, and among hosts."""

from __future__ import annotations

from sparkring._horovod.context import context


def rank() -> int:
    """Return the rank of this process.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        Before `init`.
    """
    return context().comm.rank


def size() -> int:
    """Return the number of ranks.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        Before `init`.
    """
    return context().comm.size


def local_rank() -> int:
    """Return the rank of this process among those of its host.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        Before `init`.
    """
    return context().comm.local_rank


def local_size() -> int:
    """Return the number of ranks of this host.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        Before `init`.
    """
    return context().comm.local_size


def cross_rank() -> int:
    """Return the place of this host among the hosts that have this local rank.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        Before `init`.
    """
    return context().cross.index(rank())


def cross_size() -> int:
    """Return the number of hosts that have this local rank.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        Before `init`.
    """
    return len(context().cross)


def is_homogeneous() -> bool:
    """Tell whether all hosts have the same number of ranks.

    Returns
    -------
    bool

    Raises
    ------
    ValueError
        Before `init`.
    """
    return context().homogeneous
