/* SPDX-License-Identifier: Apache-2.0 */
#include "bindings/rows.h"

#include "api/comm_lifecycle.h"

static ring_status rows_check(ring_comm *comm, int64_t own, size_t row_bytes, const int64_t *rows) {
  static const char what[] = "an impossible number of rows";
  int64_t left = INT64_MAX / (row_bytes > 0 ? (int64_t)row_bytes : 1);
  for (int rank = 0; rank < ring_comm_size(comm); left -= rows[rank++])
    if (rows[rank] < 0 || rows[rank] > left) return ring_comm_accuse(comm, rank, what);
  return rows[ring_comm_rank(comm)] == own ? RING_OK : ring_comm_accuse(comm, -1, what);
}

ring_status ring_rows_allgather(ring_comm *comm, int64_t own, size_t row_bytes, int64_t *rows) {
  ring_status status = ring_allgather(comm, &own, rows, 1, RING_INT64);
  return status == RING_OK ? rows_check(comm, own, row_bytes, rows) : status;
}

ring_status ring_rows_alltoall(ring_comm *comm, const int64_t *sent, size_t row_bytes,
                               int64_t *rows) {
  ring_status status = ring_alltoall(comm, sent, rows, 1, RING_INT64);
  return status == RING_OK ? rows_check(comm, sent[ring_comm_rank(comm)], row_bytes, rows) : status;
}
