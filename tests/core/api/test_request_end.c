/* SPDX-License-Identifier: Apache-2.0
 *
 * How requests end badly: a rank that dies, an abort, a free, an interrupt, a fork, while there is a
 * queue of them and threads that wait.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/platform.h"
#include "check.h"
#include "load.h"
#include "ranks.h"
#include "requests.h"

enum { QUEUED = 20 };

/* ---- Failures ----------------------------------------------------------------------------- */

/* The last rank is a process that takes part in half of the requests and is then killed, while its
 * queue has more to do. */
static void be_killed(const ring_options *options, int *arrived, int size) {
  ring_request *requests[QUEUED];
  ring_comm *comm = open_with(options);
  ranks_barrier(arrived, size);
  start_barriers(comm, requests, QUEUED / 2);
  CHECK_INT(ring_request_wait(requests[QUEUED / 2 - 1]), RING_OK);
  while (*(volatile int *)(arrived + 1) < size - 1) usleep(1000); /* they have finished half */
  kill(getpid(), SIGKILL);
}

static void kill_one(int rank, int size, void *shared) {
  ring_options options = rank_options(rank, size);
  ring_request *requests[QUEUED], *more;
  int status;
  if (rank == size - 1) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) be_killed(&options, shared, size);
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return;
  }
  ring_comm *comm = open_with(&options);
  ranks_barrier(shared, size);
  double begun = seconds();
  start_barriers(comm, requests, QUEUED);
  for (int i = 0; i < QUEUED / 2; i++) finish(requests[i]);
  __sync_fetch_and_add((int *)shared + 1, 1);
  for (int i = QUEUED - 1; i >= QUEUED / 2; i--) {
    finish_badly(requests[i], RING_PEER_LOST, size - 1, "was lost during");
  }
  CHECK(seconds() - begun < UNLOADED(10));
  CHECK_INT(ring_comm_usable(comm), 0);
  CHECK_INT(ring_barrier_start(comm, &more), RING_PEER_LOST);
  CHECK(more == NULL);
  CHECK_INT(ring_barrier(comm), RING_PEER_LOST);
  CHECK_INT(ring_comm_error(comm)->rank, size - 1);
  ring_comm_free(comm);
}

static void test_a_rank_is_killed_with_a_queue(void) {
  for (int size = 2; size <= 4; size++) {
    RUN_RANKS(size, kill_one, (int[16]){0});
  }
}

/* Rank 0 aborts while its first request waits for a rank that never comes; every rank's requests
 * end, and their buffers are free again when abort returns. */
static void abort_queue(int rank, int size, void *shared) {
  int *arrived = shared;
  ring_comm *comm = open_rank(rank, size);
  ring_request *requests[QUEUED];
  ranks_barrier(arrived, size);
  if (rank == size - 1) {
    while (*(volatile int *)(arrived + 1) < size - 1) usleep(1000);
    ring_comm_free(comm);
    return;
  }
  start_barriers(comm, requests, QUEUED);
  __sync_fetch_and_add(arrived + 2, 1);
  if (rank == 0) {
    int done = 0;
    while (*(volatile int *)(arrived + 2) < size - 1) usleep(1000);
    usleep(20000); /* the helper is inside the first one */
    double begun = seconds();
    ring_comm_abort(comm, "the loss is NaN");
    CHECK(seconds() - begun < UNLOADED(5));
    CHECK_INT(ring_request_test(requests[QUEUED - 1], &done), RING_ABORTED);
    CHECK_INT(done, 1);
  }
  for (int i = 0; i < QUEUED; i++)
    finish_badly(requests[i], RING_ABORTED, 0, "aborted the communicator: the loss is NaN");
  __sync_fetch_and_add(arrived + 1, 1);
  ring_comm_free(comm);
}

static void test_abort_with_a_queue(void) {
  RUN_RANKS(3, abort_queue, (int[16]){0});
}

/* A communicator may be freed under its requests, and they be asked afterwards. */
static void free_early(int rank, int size, void *shared) {
  ring_comm *comm = open_rank(rank, size);
  ring_request *requests[QUEUED];
  volatile int *freed = (int *)shared + 1;
  ranks_barrier(shared, size);
  if (rank == 0) start_barriers(comm, requests, QUEUED);
  if (rank == 0) ring_comm_free(comm);
  for (int i = 0; rank == 0 && i < QUEUED; i++)
    finish_badly(requests[i], RING_ABORTED, 0, "dropped it without closing it");
  if (rank == 0) *freed = 1;
  if (rank == 0) return;
  while (!*freed) usleep(1000);
  /* The frame of rank 0 in its first barrier may be enough for that barrier. */
  CHECK_INT(ring_barrier_start(comm, &requests[0]), RING_OK);
  ring_status status = ring_request_wait(requests[0]);
  CHECK(status == RING_OK || status == RING_ABORTED);
  CHECK_INT(ring_barrier(comm), RING_ABORTED);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "dropped it without closing it");
  ring_comm_free(comm);
  ring_request_free(requests[0]);
}

static void test_free_while_outstanding(void) {
  for (int size = 2; size <= 3; size++) {
    RUN_RANKS(size, free_early, (int[16]){0});
  }
}

/* A request has a deadline of its own, also when nobody waits for it. */
static void stay_away(int rank, int size, void *shared) {
  volatile int *left = shared;
  ring_options options = rank_options(rank, size);
  options.call_timeout = 0.3;
  ring_comm *comm = open_with(&options);
  if (rank == 0) {
    ring_request *request;
    int done = 0;
    CHECK_INT(ring_barrier_start(comm, &request), RING_OK);
    while (!done) ring_request_test(request, &done);
    finish_badly(request, RING_TIMEOUT, 1, "rank 0 waited");
    *left = 1;
  }
  while (!*left) usleep(1000);
  ring_comm_free(comm);
}

static void test_a_rank_that_stays_away(void) {
  RUN_RANKS(2, stay_away, (int[16]){0});
}

/* ---- Interrupts --------------------------------------------------------------------------- */

static pthread_t caller;
static volatile int hook_calls, hook_after;

/* Counts, and ends the wait at the call number hook_after (0: never). */
static int count_hook(void *arg) {
  (void)arg;
  CHECK(pthread_equal(pthread_self(), caller));
  hook_calls++;
  return hook_after > 0 && hook_calls >= hook_after;
}

/* How rank 0 waits for what never comes. */
typedef enum interrupt_way { IN_WAIT, IN_FREE, IN_CALL, IN_CLOSE } interrupt_way;

typedef struct interrupted {
  int arrived, ended;
  interrupt_way way;
} interrupted;

/* The frame of rank 0 in its first barrier may have arrived; it has sent none in the second. */
static void expect_aborted(ring_comm *comm, const volatile int *ended, const char *why) {
  while (*ended == 0) usleep(1000);
  if (ring_barrier(comm) == RING_OK) CHECK_INT(ring_barrier(comm), RING_ABORTED);
  CHECK_CONTAINS(ring_comm_error(comm)->message, why);
}

static void interrupt_one(int rank, int size, void *shared) {
  interrupted *of = shared;
  ring_options options = rank_options(rank, size);
  ring_request *requests[2];
  options.interrupt = count_hook;
  caller = pthread_self();
  ring_comm *comm = open_with(&options);
  ranks_barrier(&of->arrived, size);
  if (rank == 0) {
    start_barriers(comm, requests, 2);
    usleep(10000); /* so that the helper runs it */
    hook_calls = 0;
    hook_after = 3;
    double begun = seconds();
    if (of->way == IN_WAIT) CHECK_INT(ring_request_wait(requests[1]), RING_ABORTED);
    if (of->way == IN_FREE) ring_request_free(requests[1]);
    if (of->way == IN_CALL) CHECK_INT(ring_barrier(comm), RING_ABORTED);
    if (of->way == IN_CLOSE) CHECK_INT(ring_comm_close(comm), RING_ABORTED);
    CHECK(seconds() - begun > 0.2 && seconds() - begun < UNLOADED(10));
    CHECK_INT(hook_calls, 3);
    if (of->way != IN_FREE) ring_request_free(requests[1]);
    finish_badly(requests[0], RING_ABORTED, 0, "rank 0 was interrupted");
    __sync_fetch_and_add(&of->ended, 1);
  }
  if (rank > 0) expect_aborted(comm, &of->ended, "rank 0 was interrupted");
  ring_comm_free(comm);
}

static void test_interrupts(void) {
  for (int way = IN_WAIT; way <= IN_CLOSE; way++)
    RUN_RANKS(2, interrupt_one, (interrupted){.way = (interrupt_way)way});
}

/* A hook that lets the wait go on is asked about every 100 ms. */
static void wait_long(int rank, int size, void *shared) {
  (void)shared;
  ring_options options = rank_options(rank, size);
  ring_request *request;
  options.interrupt = count_hook;
  caller = pthread_self();
  hook_after = 0;
  ring_comm *comm = open_with(&options);
  CHECK_INT(ring_barrier(comm), RING_OK);
  hook_calls = 0;
  if (rank == 1) usleep(1000000);
  uint64_t begun = ring_platform_now();
  CHECK_INT(ring_barrier_start(comm, &request), RING_OK);
  finish(request);
  uint64_t most = 2 + (ring_platform_now() - begun) / 100000000;
  if (rank == 0) CHECK(hook_calls >= 3 && (uint64_t)hook_calls <= most);
  close_rank(comm);
}

static void test_the_hook_is_asked(void) {
  run_ranks(2, wait_long, NULL);
}

/* ---- A hook that uses the communicator ---------------------------------------------------- */

static ring_comm *hook_comm;
static ring_request *hook_requests[2];

/* Aborts, and then tries what would wait for a request that this thread may run itself. */
static int abort_hook(void *arg) {
  (void)arg;
  if (hook_comm == NULL || hook_calls++ > 0) return 0;
  ring_comm_abort(hook_comm, "enough");
  CHECK_INT(ring_comm_usable(hook_comm), 0);
  ring_status status = ring_barrier(hook_comm);
  CHECK(status == RING_BUSY || status == RING_ABORTED);
  status = ring_request_wait(hook_requests[1]);
  CHECK(status == RING_BUSY || status == RING_ABORTED);
  ring_comm_abort(hook_comm, "again");
  return 0;
}

typedef struct hooked {
  int arrived, ended;
  unsigned later; /* microseconds */
} hooked;

/* Rank 0 waits for what never comes. At once it mostly runs the request itself, and later its helper
 * has it. */
static void abort_in_hook(int rank, int size, void *shared) {
  hooked *of = shared;
  ring_options options = rank_options(rank, size);
  options.interrupt = abort_hook;
  ring_comm *comm = open_with(&options);
  ranks_barrier(&of->arrived, size);
  if (rank == 0) {
    start_barriers(comm, hook_requests, 2);
    if (of->later > 0) usleep(of->later);
    double begun = seconds();
    hook_calls = 0;
    hook_comm = comm;
    CHECK_INT(ring_request_wait(hook_requests[1]), RING_ABORTED);
    CHECK(seconds() - begun < UNLOADED(5));
    CHECK_INT(hook_calls > 0, 1);
    hook_comm = NULL;
    CHECK_INT(ring_barrier(comm), RING_ABORTED);
    finish_badly(hook_requests[1], RING_ABORTED, 0, "enough");
    finish_badly(hook_requests[0], RING_ABORTED, 0, "enough");
    __sync_fetch_and_add(&of->ended, 1);
  }
  if (rank > 0) expect_aborted(comm, &of->ended, "enough");
  ring_comm_free(comm);
}

static void test_a_hook_aborts(void) {
  for (int i = 0; i < 10; i++)
    RUN_RANKS(2, abort_in_hook, (hooked){.later = i % 2 == 0 ? 0 : 10000});
}

/* ---- Threads and processes ---------------------------------------------------------------- */

static void *wait_for_the_end(void *arg) {
  ring_request *request = arg;
  finish_badly(request, RING_ABORTED, 0, "aborted the communicator");
  return NULL;
}

/* Rank 0's threads wait for what never comes; another one aborts, or frees, the communicator. */
static void end_under_threads(int rank, int size, void *shared) {
  volatile int *arrived = shared;
  ring_comm *comm = open_rank(rank, size);
  ring_request *requests[4];
  pthread_t threads[4];
  ranks_barrier(shared, size);
  if (rank == 0) {
    start_barriers(comm, requests, 4);
    for (int i = 0; i < 4; i++)
      CHECK_INT(pthread_create(&threads[i], NULL, wait_for_the_end, requests[i]), 0);
    usleep(20000);
    if (arrived[2] == 0) ring_comm_abort(comm, "enough");
    ring_comm_free(comm);
    for (int i = 0; i < 4; i++) CHECK_INT(pthread_join(threads[i], NULL), 0);
    arrived[1] = 1;
    return;
  }
  while (arrived[1] == 0) usleep(1000);
  ring_comm_free(comm);
}

static void test_an_end_under_waiting_threads(void) {
  for (int way = 0; way < 6; way++) {
    RUN_RANKS(2, end_under_threads, (int[16]){[2] = way % 2});
  }
}

static int interrupt_once(void *arg) {
  return __atomic_load_n((int *)arg, __ATOMIC_RELAXED);
}

static void *wait_and_see(void *arg) {
  return (void *)(intptr_t)ring_request_wait(arg);
}

/* Every waiting thread is interrupted at about the same time: one of them ends the queue. */
static void interrupt_threads(int rank, int size, void *shared) {
  volatile int *arrived = shared;
  ring_options options = rank_options(rank, size);
  ring_request *requests[4];
  pthread_t threads[4];
  int armed = 0;
  options.interrupt = interrupt_once;
  options.interrupt_arg = &armed;
  ring_comm *comm = open_with(&options);
  ranks_barrier(shared, size);
  if (rank == 0) {
    start_barriers(comm, requests, 4);
    for (int i = 0; i < 4; i++)
      CHECK_INT(pthread_create(&threads[i], NULL, wait_and_see, requests[i]), 0);
    __atomic_store_n(&armed, 1, __ATOMIC_RELAXED);
    CHECK_INT(ring_barrier(comm), RING_ABORTED);
    for (int i = 0; i < 4; i++) {
      void *status;
      CHECK_INT(pthread_join(threads[i], &status), 0);
      CHECK_INT((intptr_t)status, RING_ABORTED);
      ring_request_free(requests[i]);
    }
    arrived[1] = 1;
  }
  while (arrived[1] == 0) usleep(1000);
  ring_comm_free(comm);
}

static void test_threads_are_interrupted_together(void) {
  for (int i = 0; i < 4; i++) {
    RUN_RANKS(2, interrupt_threads, (int[16]){0});
  }
}

/* A child that is forked while the helper is at work has no helper: it frees and does not wait. */
static void fork_with_a_queue(ring_comm *comm, void *shared) {
  volatile int *forked = shared;
  ring_request *requests[QUEUED];
  int status, done;
  if (ring_comm_rank(comm) == 1)
    while (!*forked) usleep(1000);
  start_barriers(comm, requests, QUEUED);
  if (ring_comm_rank(comm) == 0) {
    usleep(10000);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      CHECK_INT(ring_request_wait(requests[0]), RING_INVALID);
      CHECK_INT(ring_request_test(requests[0], &done), RING_INVALID);
      CHECK_INT(ring_barrier_start(comm, &requests[1]), RING_INVALID);
      ring_request_free(requests[0]);
      ring_comm_free(comm);
      for (int i = 2; i < QUEUED; i++) ring_request_free(requests[i]);
      _exit(0);
    }
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(status, 0);
    *forked = 1;
  }
  for (int i = 0; i < QUEUED; i++) finish(requests[i]);
}

static void test_a_fork_does_not_wait(void) {
  RUN_COMMS(2, fork_with_a_queue, (int[16]){0});
}

int main(void) {
  RUN(test_a_rank_is_killed_with_a_queue);
  RUN(test_abort_with_a_queue);
  RUN(test_free_while_outstanding);
  RUN(test_a_rank_that_stays_away);
  RUN(test_interrupts);
  RUN(test_the_hook_is_asked);
  RUN(test_a_hook_aborts);
  RUN(test_an_end_under_waiting_threads);
  RUN(test_threads_are_interrupted_together);
  RUN(test_a_fork_does_not_wait);
  return 0;
}
