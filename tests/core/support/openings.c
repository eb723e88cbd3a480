/* SPDX-License-Identifier: Apache-2.0 */
#include "openings.h"

#include "check.h"
#include "ranks.h"

void check_ring(ring_comm *comm) {
  int64_t x = INT64_C(1) << ring_comm_rank(comm);
  CHECK_INT(ring_allreduce(comm, &x, &x, 1, RING_INT64, RING_SUM), RING_OK);
  CHECK_INT(x, (INT64_C(1) << ring_comm_size(comm)) - 1);
}

void open_check_close(const ring_options *options) {
  ring_comm *comm = open_with(options);
  check_ring(comm);
  close_rank(comm);
}

int expect_failure(const ring_options *options, ring_status status, const char *text) {
  ring_comm *comm;
  ring_error error;
  ring_status got = ring_comm_open(options, &comm, &error);
  if (got != status) fprintf(stderr, "rank %d: %s\n", options->rank, error.message);
  CHECK_INT(got, status);
  CHECK_CONTAINS(error.message, text);
  CHECK(comm == NULL);
  return error.rank;
}
