/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that unloads the library while a communicator is open and a request runs. A thread of
 * the library is still running, so the code stays mapped, and the other rank gets a failure.
 */
#include <dlfcn.h>

#include "check.h"
#include "ranks.h"

static void run_unload(int rank, int size, void *shared) {
  ring_options options = rank_options(rank, size);
  void *library = dlopen(SPARKRING_LIBRARY, RTLD_NOW);
  CHECK(library != NULL);
  ring_status (*open)(const ring_options *, ring_comm **, ring_error *);
  ring_status (*barrier)(ring_comm *);
  ring_status (*start)(ring_comm *, ring_request **);
  void (*drop)(ring_comm *);
  *(void **)&open = dlsym(library, "ring_comm_open");
  *(void **)&barrier = dlsym(library, "ring_barrier");
  *(void **)&start = dlsym(library, "ring_barrier_start");
  *(void **)&drop = dlsym(library, "ring_comm_free");
  CHECK(open != NULL && barrier != NULL && start != NULL && drop != NULL);
  static ring_comm *comm; /* static: what rank 0 leaves open is still reachable, and no leak */
  static ring_request *request;
  ring_error error;
  CHECK_INT(open(&options, &comm, &error), RING_OK);
  CHECK_INT(barrier(comm), RING_OK);
  if (rank == 0) {
    CHECK_INT(start(comm, &request), RING_OK);
    CHECK_INT(dlclose(library), 0);
    ranks_barrier(shared, size); /* while the thread goes on */
    return;
  }
  CHECK_INT(barrier(comm), RING_OK); /* the request is served, although unloaded */
  ranks_barrier(shared, size);
  CHECK_INT(barrier(comm), RING_PEER_LOST);
  drop(comm);
  CHECK_INT(dlclose(library), 0);
}

static void test_unload_in_a_request(void) {
  RUN_RANKS(2, run_unload, (int){0});
}

int main(void) {
  RUN(test_unload_in_a_request);
  return 0;
}
