# SPDX-License-Identifier: Apache-2.0
"""Questions about how Horovod was built. sparkring uses none of these libraries."""

from __future__ import annotations


def mpi_threads_supported() -> bool:
    """Return False: no MPI is used.

    Returns
    -------
    bool
    """
    return False


def mpi_enabled() -> bool:
    """Return False: no MPI is used.

    Returns
    -------
    bool
    """
    return False


def mpi_built() -> bool:
    """Return False: no MPI is used.

    Returns
    -------
    bool
    """
    return False


def gloo_enabled() -> bool:
    """Return False: no Gloo is used.

    Returns
    -------
    bool
    """
    return False


def gloo_built() -> bool:
    """Return False: no Gloo is used.

    Returns
    -------
    bool
    """
    return False


def nccl_built() -> int:
    """Return 0: no NCCL is used.

    Returns
    -------
    int
    """
    return 0


def ddl_built() -> bool:
    """Return False: no DDL is used.

    Returns
    -------
    bool
    """
    return False


def ccl_built() -> bool:
    """Return False: no oneCCL is used.

    Returns
    -------
    bool
    """
    return False


def cuda_built() -> bool:
    """Return False: no CUDA is used.

    Returns
    -------
    bool
    """
    return False


def rocm_built() -> bool:
    """Return False: no ROCm is used.

    Returns
    -------
    bool
    """
    return False
