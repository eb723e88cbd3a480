/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows: the ranks exchange their numbers; a rank that forges its number is named on the ranks that received it.
 */
#include "bindings/rows.h"

#include "check.h"
#include "ranks.h"

enum { SIZE = 3 };

static void exchange(ring_comm *comm, void *shared) {
  (void)shared;
  int rank = ring_comm_rank(comm);
  int64_t rows[SIZE], sent[SIZE];
  for (int to = 0; to < SIZE; to++) sent[to] = 10 * rank + to;
  CHECK_INT(ring_rows_allgather(comm, rank, 8, rows), RING_OK);
  for (int from = 0; from < SIZE; from++) CHECK_INT(rows[from], from);
  CHECK_INT(ring_rows_alltoall(comm, sent, 0, rows), RING_OK);
  for (int from = 0; from < SIZE; from++) CHECK_INT(rows[from], 10 * from + rank);
}

static void test_rows(void) {
  run_comms(SIZE, exchange, NULL);
}

/* Rank 1 gathers, or sends rank 2 alone, a number that cannot be. */
static void forgery(int rank, int size, void *shared) {
  static const char text[] = "rank 1 (127.0.0.1) sent an impossible number of rows";
  static const int64_t bad[] = {-1, INT64_MAX / 8, INT64_MIN};
  int64_t rows[SIZE];
  (void)shared;
  for (int i = 0; i < 6; i++) {
    ring_comm *comm = open_rank(rank, size);
    int64_t sent[SIZE] = {1, 1, rank == 1 ? bad[i / 2] : 1};
    bool gathers = i % 2 == 0;
    ring_status status = gathers ? rank == 1 ? ring_allgather(comm, &sent[2], rows, 1, RING_INT64)
                                             : ring_rows_allgather(comm, 1, 16, rows)
                         : rank == 1 ? ring_alltoall(comm, sent, rows, 1, RING_INT64)
                                     : ring_rows_alltoall(comm, sent, 16, rows);
    if (status == RING_OK) status = ring_barrier(comm);
    if (rank != 1) ranks_expect(comm, status, RING_MISMATCH, 1, text);
    ring_barrier(comm);
    ring_comm_free(comm);
  }
}

static void test_forgeries(void) {
  run_ranks(SIZE, forgery, NULL);
}

int main(void) {
  RUN(test_rows);
  RUN(test_forgeries);
  return 0;
}
