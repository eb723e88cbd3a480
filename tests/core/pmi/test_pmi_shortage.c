/* SPDX-License-Identifier: Apache-2.0
 *
 * PMI servers of which one rank has no memory or descriptors, at the start or later: all ranks fail alike, with the
 * rank and the reason. The linker sends calls of the core through here (--wrap).
 */
#include <errno.h>
#include <stdatomic.h>

#include "pmi/pmi_server.h"
#include "program.h"

enum { SIZE = 3 };

static atomic_bool no_socketpair, no_thread, no_output, no_memory; /* on this rank */

int __real_socketpair(int domain, int type, int protocol, int ends[2]);
int __real_ring_platform_thread(pthread_t *thread, void *(*function)(void *), void *arg);
ring_status __real_ring_alloc(ring_comm *comm, size_t bytes, void **memory);
void *__real_malloc(size_t size);

int __wrap_socketpair(int domain, int type, int protocol, int ends[2]) {
  if (!no_socketpair) return __real_socketpair(domain, type, protocol, ends);
  errno = EMFILE;
  return -1;
}

/* The second thread is that of the server: the messages have the first. */
int __wrap_ring_platform_thread(pthread_t *thread, void *(*function)(void *), void *arg) {
  static int threads;
  if (no_thread && ++threads == 2) return EAGAIN;
  return __real_ring_platform_thread(thread, function, arg);
}

ring_status __wrap_ring_alloc(ring_comm *comm, size_t bytes, void **memory) {
  return no_output ? RING_NO_MEMORY : __real_ring_alloc(comm, bytes, memory);
}

void *__wrap_malloc(size_t size) {
  return no_memory ? NULL : __real_malloc(size);
}

/* ---- At the start ------------------------------------------------------------------------- */

typedef struct shortage {
  atomic_bool *flag;
  int rank;
  const char *text;
} shortage;

static void try_start(ring_comm *comm, void *shared) {
  const shortage *s = shared;
  ring_pmi *pmi = (ring_pmi *)1;
  if (ring_comm_rank(comm) == s->rank) atomic_store(s->flag, true);
  CHECK_INT(ring_pmi_serve(comm, 0, &pmi), RING_SYSTEM);
  CHECK(pmi == NULL);
  CHECK_INT(ring_comm_error(comm)->rank, s->rank);
  CHECK_CONTAINS(ring_comm_error(comm)->message, s->text);
  CHECK_INT(ring_barrier(comm), RING_OK); /* the user's communicator works on */
  atomic_store(s->flag, false);
  pmi = serve(comm);
  request_init(pmi);
  request(pmi, "cmd=finalize", "cmd=finalize_ack");
  close_pmi(pmi);
}

static void test_a_rank_cannot_serve(void) {
  shortage ways[] = {
      {&no_socketpair, 0, "rank 0 (127.0.0.1) cannot start a PMI server: Too many open files"},
      {&no_socketpair, 1, "rank 1 (127.0.0.1) cannot start a PMI server: Too many open files"},
      {&no_thread, 2, "rank 2 (127.0.0.1) cannot start a PMI server: Resource temporarily"}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) run_comms(SIZE, try_start, &ways[i]);
}

/* ---- Later -------------------------------------------------------------------------------- */

/* A fence during which one rank has no memory for a control message, which it sends or receives. */
static void try_fence(ring_comm *comm, void *shared) {
  const shortage *s = shared;
  ring_pmi *pmi = serve(comm);
  request_init(pmi);
  CHECK_INT(ring_barrier(comm), RING_OK);
  if (ring_comm_rank(comm) == s->rank) atomic_store(s->flag, true);
  send_late(pmi, "cmd=barrier_in\n"); /* another rank may have failed them all */
  expect_failure(pmi, RING_NO_MEMORY, s->rank, s->text);
  atomic_store(s->flag, false);
  CHECK_INT(ring_barrier(comm), RING_OK);
}

static void test_memory_runs_out(void) {
  for (int rank = 0; rank < SIZE; rank++) {
    char text[64];
    snprintf(text, sizeof text, "rank %d", rank);
    run_comms(SIZE, try_fence, &(shortage){&no_memory, rank, text});
    snprintf(text, sizeof text, "rank %d has no memory for a message of", rank);
    run_comms(SIZE, try_fence, &(shortage){&no_output, rank, text});
  }
}

int main(void) {
  RUN(test_a_rank_cannot_serve);
  RUN(test_memory_runs_out);
  return 0;
}
