/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks add up their numbers:
 *   cc sum.c -o sum $(pkg-config --cflags --libs sparkring)
 *   sparkring-run -n 2 ./sum
 */
#include <stdio.h>

#include "sparkring.h"

int main(void) {
  ring_options options = RING_OPTIONS_INIT; /* the ranks come from the environment */
  ring_comm *comm;
  ring_error error;
  if (ring_comm_open(&options, &comm, &error) != RING_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  double mine = ring_comm_rank(comm) + 1, sum;
  ring_status status = ring_allreduce(comm, &mine, &sum, 1, RING_FLOAT64, RING_SUM);
  if (status == RING_OK && ring_comm_rank(comm) == 0)
    printf("the sum of %d ranks is %g\n", ring_comm_size(comm), sum);
  if (status == RING_OK) status = ring_comm_close(comm);
  if (status != RING_OK) fprintf(stderr, "%s\n", ring_comm_error(comm)->message);
  ring_comm_free(comm);
  return status != RING_OK;
}
