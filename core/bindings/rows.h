/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows: the ranks exchange how many rows each of them sends before the rows themselves.
 */
#ifndef RING_BINDINGS_ROWS_H
#define RING_BINDINGS_ROWS_H

#include "sparkring.h"

/* Gathers the number of rows of each rank on all ranks. A row has `row_bytes` bytes on this rank. Collective. The
 * numbers are 0 or more, that of this rank is `own`, and all rows together fit into memory; else RING_MISMATCH ends
 * the communicator. */
ring_status ring_rows_allgather(ring_comm *comm, int64_t own, size_t row_bytes, int64_t *rows);

/* Sends every rank the number of rows that it will get, and receives the numbers of this rank. The same else. */
ring_status ring_rows_alltoall(ring_comm *comm, const int64_t *sent, size_t row_bytes,
                               int64_t *rows);

#endif
