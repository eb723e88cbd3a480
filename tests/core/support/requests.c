/* SPDX-License-Identifier: Apache-2.0 */
#include "requests.h"

#include "check.h"

void finish(ring_request *request) {
  int done = 0;
  ring_status status = ring_request_wait(request);
  if (status != RING_OK) fprintf(stderr, "%s\n", ring_request_error(request)->message);
  CHECK_INT(status, RING_OK);
  CHECK_INT(ring_request_wait(request), RING_OK);
  CHECK_INT(ring_request_test(request, &done), RING_OK);
  CHECK_INT(done, 1);
  CHECK_INT(ring_request_error(request)->status, RING_OK);
  ring_request_free(request);
}

void finish_badly(ring_request *request, ring_status status, int rank, const char *text) {
  int done = 0;
  CHECK_INT(ring_request_wait(request), status);
  CHECK_INT(ring_request_test(request, &done), status);
  CHECK_INT(done, 1);
  CHECK_INT(ring_request_error(request)->status, status);
  CHECK_INT(ring_request_error(request)->rank, rank);
  CHECK_CONTAINS(ring_request_error(request)->message, text);
  ring_request_free(request);
}

void start_barriers(ring_comm *comm, ring_request **requests, int count) {
  for (int i = 0; i < count; i++) CHECK_INT(ring_barrier_start(comm, &requests[i]), RING_OK);
}
