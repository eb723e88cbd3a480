/* SPDX-License-Identifier: Apache-2.0
 *
 * The header and the library from C++17: a world of one.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sparkring.h"

static void check(bool holds, const char *what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

int main() {
  ring_options options = RING_OPTIONS_INIT;
  check(options.struct_size == sizeof options && options.rank == -1, "RING_OPTIONS_INIT");
  check(options.encryption == RING_DEFAULT && options.warn_after == 0, "defaults");
  options.rank = 0;
  options.size = 1;
  options.root_address = "localhost";
  options.shared_memory = RING_OFF;
  options.warn_after = RING_NEVER;
  ring_comm *comm = nullptr;
  ring_error error;
  check(ring_comm_open(&options, &comm, &error) == RING_OK, error.message);

  double x[] = {1, 2};
  check(ring_allreduce(comm, x, x, 2, RING_FLOAT64, RING_SUM) == RING_OK, "allreduce");
  ring_request *request = nullptr;
  check(ring_broadcast_start(comm, x, x, 2, RING_FLOAT64, 0, &request) == RING_OK, "start");
  check(ring_request_wait(request) == RING_OK && x[0] == 1 && x[1] == 2, "wait");
  ring_request_free(request);

  ring_explanation explanation;
  check(ring_comm_explain(comm, "allreduce", 8, RING_INT8, 0, &explanation) == RING_OK, "explain");
  ring_comm_describe(comm, ring_digest_add(RING_DIGEST_EMPTY, x, sizeof x), "two numbers");
  check(ring_barrier(comm) == RING_OK, "barrier");
  check(ring_comm_close(comm) == RING_OK, "close");
  ring_comm_free(comm);
  check(std::strcmp(ring_version(), RING_VERSION) == 0, "version");
  return 0;
}
