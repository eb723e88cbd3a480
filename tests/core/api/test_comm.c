/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a communicator: opening with bad options, what it knows, and every way to end.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"

/* ---- Options ------------------------------------------------------------------------------ */

static void refuse(ring_options options, const char *text) {
  ring_comm *comm = (ring_comm *)&options;
  ring_error error;
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_INVALID);
  CHECK_INT(error.status, RING_INVALID);
  CHECK_CONTAINS(error.message, text);
  CHECK(comm == NULL);
}

/* Rank 0 of 3 opens with these changes to its options, and gets this error. */
#define REFUSE(text, ...)                                                                          \
  do {                                                                                             \
    ring_options options = rank_options(0, 3);                                                     \
    __VA_ARGS__;                                                                                   \
    refuse(options, text);                                                                         \
  } while (0)

static void test_bad_options(void) {
  REFUSE("rank is 3, but size is 3: ranks go from 0 to 2", options.rank = 3);
  REFUSE("rank is -2", options.rank = -2);
  REFUSE("3 addresses were given for size 4", options.size = 4);
  REFUSE("rank is missing", options.rank = -1);
  REFUSE("size is -1", options.size = -1);
  REFUSE("size is missing: pass it, or the addresses of all ranks", options.size = 0;
         options.address_count = 0);
  REFUSE("the address of rank 1 is bad", options.addresses = (const char *const[]){"a", "", "c"});
  REFUSE("the address of rank 1 is bad",
         options.addresses = (const char *const[]){"a:1", "b:99999", "c:3"});
  REFUSE("no addresses were given", options.address_count = 0);
  REFUSE("timeout is -1", options.timeout = -1);
  REFUSE("the port range 4000 to 3000 is empty", options.port_first = 4000;
         options.port_last = 3000);
  REFUSE("the token is empty", options.token = ""; options.token_length = 0);
  REFUSE("the token is too short, 15 bytes: give at least 16 random bytes, or none",
         options.token = "fifteen letters";
         options.token_length = 15);
  REFUSE("token is NULL, but token_length is not 0", options.token = NULL);
  REFUSE("addresses is NULL, but address_count is not 0", options.addresses = NULL);
  REFUSE("begin with RING_OPTIONS_INIT", options.struct_size = 3);
}

/* ---- Alone -------------------------------------------------------------------------------- */

static void test_a_world_of_one(void) {
  ring_comm *comm;
  double x = 3, y = 0;
  uint8_t truth = 5;
  CHECK_INT(ring_comm_open(NULL, &comm, NULL), RING_OK);
  CHECK_INT(ring_comm_rank(comm), 0);
  CHECK_INT(ring_comm_size(comm), 1);
  CHECK_INT(ring_comm_local_size(comm), 1);
  CHECK_CONTAINS(ring_comm_host(comm, 0), "127.0.0.1");
  CHECK_INT(ring_allreduce(comm, &x, &y, 1, RING_FLOAT64, RING_AVG), RING_OK);
  CHECK(y == 3);
  CHECK_INT(ring_allreduce(comm, &truth, &truth, 1, RING_UINT8, RING_LOR), RING_OK);
  CHECK_INT(truth, 1);
  CHECK_INT(ring_barrier(comm), RING_OK);
  CHECK_INT(ring_comm_close(comm), RING_OK);
  CHECK_INT(ring_barrier(comm), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "the communicator is closed");
  CHECK_INT(ring_comm_close(comm), RING_INVALID);
  ring_comm_free(comm);
  ring_comm_free(NULL);
  CHECK_INT(ring_barrier(NULL), RING_INVALID);
}

/* ---- What it knows ------------------------------------------------------------------------ */

static void look(ring_comm *comm, void *shared) {
  uint64_t *epochs = shared;
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm), links = 0;
  ring_counters counters;
  epochs[rank] = ring_comm_epoch(comm);
  CHECK_INT(ring_comm_local_rank(comm), rank);
  CHECK_INT(ring_comm_local_size(comm), size);
  CHECK_INT(ring_comm_authenticated(comm), 1);
  CHECK_INT(ring_comm_usable(comm), 1);
  CHECK_INT(strcmp(ring_comm_host(comm, size - 1), "127.0.0.1"), 0);
  CHECK(ring_comm_host(comm, size) == NULL && ring_comm_host(comm, -1) == NULL);
  CHECK_INT(strcmp(ring_comm_link(comm, rank), "self"), 0);
  CHECK_INT(strcmp(ring_comm_link(comm, (rank + 1) % size), ranks_link()), 0);
  CHECK_INT(ring_comm_counters(comm, size, &counters), RING_INVALID);
  CHECK_INT(ring_comm_counters(comm, rank, &counters), RING_OK);
  CHECK_INT(counters.bytes_sent, 0);
  float x[100] = {0};
  CHECK_INT(ring_allreduce(comm, x, x, 100, RING_FLOAT32, RING_SUM), RING_OK);
  CHECK_INT(ring_broadcast(comm, x, x, 100, RING_FLOAT32, 0), RING_OK);
  for (int peer = 0; peer < size; peer++)
    links += strcmp(ring_comm_link(comm, peer), ranks_link()) == 0;
  CHECK(links <= 2 * 4); /* 2 log2(16): the ring, the tree and the barrier share partners */
  CHECK_INT(ring_barrier(comm), RING_OK);
  for (int other = 0; other < size; other++) CHECK(epochs[other] == epochs[0]);
}

static void test_what_it_knows(void) {
  RUN_COMMS(16, look, (uint64_t[512]){0});
}

/* 127.0.0.1 and 127.0.0.2 are two hosts by name. */
static void find_locals(int rank, int size, void *shared) {
  (void)shared;
  static const char *hosts[] = {"127.0.0.1:1", "127.0.0.2:1", "127.0.0.1:2", "127.0.0.2:2"};
  ring_options options = rank_options(rank, size);
  options.addresses = hosts;
  ring_comm *comm = open_with(&options);
  CHECK_INT(ring_comm_local_rank(comm), rank / 2);
  CHECK_INT(ring_comm_local_size(comm), 2);
  close_rank(comm);
}

static void test_local_ranks(void) {
  run_ranks(4, find_locals, NULL);
}

/* ---- Ends --------------------------------------------------------------------------------- */

static void check_failure(ring_comm *comm, ring_status status, ring_status expected, int fault,
                          const char *text) {
  const ring_error *error = ring_comm_error(comm);
  if (status != expected) fprintf(stderr, "%s\n", error->message);
  CHECK_INT(status, expected);
  CHECK_INT(error->status, expected);
  CHECK_INT(error->rank, fault);
  CHECK_CONTAINS(error->message, text);
  CHECK_INT(ring_comm_usable(comm), 0);
  CHECK_INT(ring_barrier(comm), expected);
  CHECK_INT(ring_comm_close(comm), expected);
  ring_comm_free(comm);
  exit(0);
}

/* All reduce for ever, until rank 1 ends; the survivors all name it. */
static void die_in_the_middle(int rank, int size, void *shared) {
  enum { COUNT = 4000000 };
  (void)shared;
  float *x = calloc(COUNT, sizeof *x);
  ring_comm *comm = open_rank(rank, size);
  ring_status status = RING_OK;
  for (int i = 0; status == RING_OK; i++) {
    if (rank == 1 && i == 3) _exit(0); /* without a word, as a crash */
    status = ring_allreduce(comm, x, x, COUNT, RING_FLOAT32, RING_SUM);
  }
  free(x);
  check_failure(comm, status, RING_PEER_LOST, 1, "rank 1 (127.0.0.1) was lost during allreduce");
}

static void test_a_rank_that_dies(void) {
  for (int size = 2; size <= 5; size++) run_ranks(size, die_in_the_middle, NULL);
}

static void abort_or_wait(int rank, int size, void *shared) {
  ring_comm *comm = open_rank(rank, size);
  ranks_barrier(shared, size);
  if (rank == 2) ring_comm_abort(comm, "the loss is NaN");
  check_failure(comm, ring_barrier(comm), RING_ABORTED, 2,
                "rank 2 (127.0.0.1) aborted the communicator: the loss is NaN");
}

static void test_abort(void) {
  RUN_RANKS(4, abort_or_wait, (int[16]){0});
}

/* The last rank comes later than a call may wait; `seconds` is what the others wait for it. */
static void close_late(int rank, int size, void *seconds) {
  ring_options options = rank_options(rank, size);
  double most = *(const double *)seconds;
  options.call_timeout = 1;
  ring_comm *comm = open_with(&options);
  if (rank == size - 1) usleep(2500000);
  ring_status status = ring_comm_close_within(comm, rank == size - 1 ? 0 : most);
  if (most > 0) CHECK_INT(status, RING_OK);
  if (most == 0) CHECK_INT(ring_comm_error(comm)->rank, size - 1);
  if (most == 0) CHECK_INT(status, rank == size - 1 ? RING_ABORTED : RING_TIMEOUT);
  ring_comm_free(comm);
}

static void test_close_waits_as_long_as_it_may(void) {
  double seconds[] = {60, INFINITY, 0};
  for (int i = 0; i < 3; i++) run_ranks(3, close_late, &seconds[i]);
}

/* With an error before, or without. */
static void drop_or_wait(int rank, int size, void *shared) {
  int *arrived = shared;
  ring_comm *comm = open_rank(rank, size);
  ranks_barrier(&arrived[0], size);
  if (rank == 0) {
    if (arrived[1] == 1) CHECK_INT(ring_send(comm, NULL, 0, RING_INT32, 99), RING_INVALID);
    ring_comm_free(comm);
    exit(0);
  }
  check_failure(comm, ring_barrier(comm), RING_ABORTED, 0,
                arrived[1] == 1 ? "closing it; the last error there: message: "
                                : "dropped it without closing it");
}

static void test_free_without_close(void) {
  for (int fails = 0; fails < 2; fails++) RUN_RANKS(3, drop_or_wait, (int[2]){0, fails});
}

/* A hook that does nothing until it is armed, so that opening is not disturbed. */
static ring_comm *hooked;
static int (*armed)(void);

static int hook(void *arg) {
  (void)arg;
  return armed == NULL ? 0 : armed();
}

static int interrupt_now(void) {
  return 1;
}

/* Rank 1 never calls; the hook of rank 0 interrupts it, and the other ranks get the failure. */
static void interrupt_or_wait(int rank, int size, void *shared) {
  int *left = shared;
  ring_options options = rank_options(rank, size);
  options.interrupt = hook;
  CHECK_INT(ring_comm_open(&options, &hooked, NULL), RING_OK);
  ranks_barrier(left + 1, size);
  if (rank == 1) {
    while (*(volatile int *)left < size - 1) usleep(1000);
    ring_comm_free(hooked);
    exit(0);
  }
  if (rank == 0) armed = interrupt_now;
  ring_status status = ring_barrier(hooked);
  __sync_fetch_and_add(left, 1);
  check_failure(hooked, status, RING_ABORTED, 0, "rank 0 was interrupted during barrier()");
}

static void test_interrupt(void) {
  RUN_RANKS(3, interrupt_or_wait, (int[16]){0});
}

/* Rank 0 aborts and is gone while the others are already sending it megabytes of the next call: its
 * last words must not be lost with the bytes that it never reads. */
static void abort_under_load(int rank, int size, void *shared) {
  enum { COUNT = 4000000 };
  (void)shared;
  float *x = calloc(COUNT, sizeof *x);
  ring_comm *comm = open_rank(rank, size);
  ring_status status = RING_OK;
  for (int i = 0; status == RING_OK; i++) {
    if (rank == 0 && i == 3) ring_comm_abort(comm, "enough");
    status = ring_allreduce(comm, x, x, COUNT, RING_FLOAT32, RING_SUM);
  }
  free(x);
  check_failure(comm, status, RING_ABORTED, 0,
                "rank 0 (127.0.0.1) aborted the communicator: enough");
}

static void test_abort_under_load(void) {
  for (int size = 2; size <= 4; size++) run_ranks(size, abort_under_load, NULL);
}

static void *call_meanwhile(void *arg) {
  (void)arg;
  return (void *)(intptr_t)ring_barrier(hooked);
}

/* Runs inside a waiting call: a second thread that calls now is turned away. */
static int call_from_a_thread(void) {
  pthread_t thread;
  void *result;
  CHECK_INT(pthread_create(&thread, NULL, call_meanwhile, NULL), 0);
  CHECK_INT(pthread_join(thread, &result), 0);
  CHECK_INT((intptr_t)result, RING_BUSY);
  return 1;
}

static void be_busy(int rank, int size, void *shared) {
  volatile int *done = shared;
  ring_options options = rank_options(rank, size);
  options.interrupt = hook;
  CHECK_INT(ring_comm_open(&options, &hooked, NULL), RING_OK);
  if (rank == 0) {
    armed = call_from_a_thread;
    CHECK_INT(ring_barrier(hooked), RING_ABORTED);
    *done = 1;
  }
  while (!*done) usleep(1000);
  ring_comm_free(hooked);
}

static void test_two_threads(void) {
  RUN_RANKS(2, be_busy, (int[16]){0});
}

typedef struct watching {
  const ring_comm *comm;
  int other;
  atomic_bool watches, stop;
} watching;

/* Queries, called all the time. */
static void *watch(void *arg) {
  watching *of = arg;
  while (!atomic_load(&of->stop)) {
    const char *link = ring_comm_link(of->comm, of->other);
    ring_counters counters;
    CHECK(link[0] == '\0' || strcmp(link, ranks_network()) == 0 || strcmp(link, "shm") == 0);
    CHECK_INT(ring_comm_counters(of->comm, -1, &counters), RING_OK);
    CHECK(counters.calls <= 3);
    CHECK(ring_comm_usable(of->comm) <= 1);
    atomic_store(&of->watches, true);
  }
  CHECK_INT(ring_comm_usable(of->comm), 0);
  CHECK_INT(strcmp(ring_comm_link(of->comm, of->other), ""), 0);
  return NULL;
}

/* The ways in which a communicator ends. */
static void close_it(ring_comm *comm) {
  CHECK_INT(ring_comm_close(comm), RING_OK);
}

static void abort_it(ring_comm *comm) {
  ring_comm_abort(comm, "enough");
}

static void lose_it(ring_comm *comm) {
  if (ring_comm_rank(comm) == 0) _exit(0);
  CHECK_INT(ring_comm_close(comm), RING_PEER_LOST);
}

static void end_while_watched(int rank, int size, void *end) {
  watching of = {.comm = open_rank(rank, size), .other = 1 - rank};
  ring_comm *comm = (ring_comm *)of.comm;
  float x = 1;
  pthread_t thread;
  CHECK_INT(pthread_create(&thread, NULL, watch, &of), 0);
  while (!atomic_load(&of.watches)) usleep(1000);
  for (int i = 0; i < 3; i++)
    CHECK_INT(ring_allreduce(comm, &x, &x, 1, RING_FLOAT32, RING_SUM), RING_OK);
  (*(void (*const *)(ring_comm *))end)(comm);
  atomic_store(&of.stop, true);
  CHECK_INT(pthread_join(thread, NULL), 0);
  ring_comm_free(comm);
}

static void test_it_ends_while_a_thread_looks(void) {
  static void (*const ends[])(ring_comm *) = {close_it, abort_it, lose_it};
  for (int i = 0; i < 9; i++) run_ranks(2, end_while_watched, (void *)&ends[i % 3]);
}

static void fork_inside(ring_comm *comm, void *shared) {
  (void)shared;
  int status;
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK_INT(ring_barrier(comm), RING_INVALID);
    CHECK_CONTAINS(ring_comm_error(comm)->message, "belongs to the process that forked this one");
    ring_comm_free(comm);
    _exit(0);
  }
  CHECK_INT(waitpid(child, &status, 0), child);
  CHECK_INT(status, 0);
  CHECK_INT(ring_barrier(comm), RING_OK); /* the links are whole */
}

static void test_a_fork_may_only_free(void) {
  run_comms(3, fork_inside, NULL);
}

static void test_statuses_have_names(void) {
  CHECK_INT(strcmp(ring_status_name(RING_PEER_LOST), "PEER_LOST"), 0);
  CHECK_CONTAINS(ring_status_text(RING_PEER_LOST), "another rank died");
  CHECK_INT(strcmp(ring_status_name((ring_status)99), "UNKNOWN"), 0);
}

int main(void) {
  RUN(test_bad_options);
  RUN(test_a_world_of_one);
  RUN(test_what_it_knows);
  RUN(test_local_ranks);
  RUN(test_a_rank_that_dies);
  RUN(test_abort);
  RUN(test_close_waits_as_long_as_it_may);
  RUN(test_free_without_close);
  RUN(test_interrupt);
  RUN(test_abort_under_load);
  RUN(test_two_threads);
  RUN(test_it_ends_while_a_thread_looks);
  RUN(test_a_fork_may_only_free);
  RUN(test_statuses_have_names);
  return 0;
}
