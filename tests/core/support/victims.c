/* SPDX-License-Identifier: Apache-2.0 */
#include "victims.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void *kill_soon(void *arg) {
  failing *f = arg;
  usleep(50000);
  f->since = seconds();
  raise(SIGKILL);
  return NULL;
}

void be_killed_soon(failing *f) {
  pthread_t thread;
  CHECK_INT(pthread_create(&thread, NULL, kill_soon, f), 0);
  pthread_detach(thread);
}

void run_victim_with(int size, rank_function function, const void *value, size_t length) {
  void *shared = memcpy(shared_alloc(length), value, length);
  const failing *f = shared;
  pid_t children[RANKS_MAX];
  for (int rank = 0; rank < size; rank++) {
    children[rank] = fork_for(60);
    if (children[rank] > 0) continue;
    function(rank, size, shared);
    exit(0);
  }
  for (int rank = 0; rank < size; rank++) {
    int status = 0;
    CHECK(waitpid(children[rank], &status, 0) == children[rank]);
    if (rank == f->victim)
      CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    else
      CHECK_INT(status, 0);
  }
  shared_free(shared, length);
}

void expect_end(ring_comm *comm, ring_status status, ring_status expected, int fault,
                const char *text) {
  ranks_expect(comm, status, expected, fault, text);
  CHECK_INT(ring_barrier(comm), expected);
  CHECK_INT(ring_comm_close(comm), expected);
  ring_comm_free(comm);
}
