# SPDX-License-Identifier: Apache-2.0
"""MPI programs that the ranks start: `Communicator.mpi_run`."""
