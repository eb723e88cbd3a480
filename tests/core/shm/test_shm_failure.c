/* SPDX-License-Identifier: Apache-2.0
 *
 * How ranks fail in shared memory: a rank dies, is stopped, is late, is interrupted or times out,
 * asleep or in the middle of a call, also of several pieces. All other ranks fail within about a
 * second with the name of the rank at fault. A rank returns from a failed call once no other rank
 * reads or writes its buffers.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/comm_state.h"
#include "base/error.h"
#include "base/platform.h"
#include "check.h"
#include "meetings.h"
#include "ranks.h"
#include "shm/shm_failure.h"
#include "shm/sync.h"

static double seconds(void) {
  return (double)ring_platform_now() / 1e9;
}

/* ---- Deaths and deadlines ----------------------------------------------------------------- */

enum { LONG = 1500000 };

/* Shared by the ranks of a test. */
typedef struct failing {
  int arrived, over; /* ranks that have reached the beginning, or the end */
  int victim;
  bool arena, large;
  double since; /* when the victim failed */
  int failed;   /* ranks that have failed */
} failing;

static failing *prepare(int victim, bool arena, bool large) {
  failing *f = shared_alloc(sizeof *f);
  *f = (failing){.victim = victim, .arena = arena, .large = large};
  return f;
}

static float *get_floats(ring_comm *comm, bool arena) {
  void *memory = NULL;
  if (!arena) return calloc(LONG, sizeof(float));
  CHECK_INT(ring_alloc(comm, LONG * sizeof(float), &memory), RING_OK);
  memset(memory, 0, LONG * sizeof(float));
  return memory;
}

static void put_floats(float *x, bool arena) {
  if (arena)
    ring_free(x);
  else
    free(x);
}

static void expect_end(ring_comm *comm, ring_status status, ring_status expected, int fault,
                       const char *text) {
  ranks_expect(comm, status, expected, fault, text);
  CHECK_INT(ring_barrier(comm), expected);
  CHECK_INT(ring_comm_close(comm), expected);
  ring_comm_free(comm);
}

static void loop_until_it_fails(ring_comm *comm, failing *f, ring_status expected,
                                const char *text) {
  float *x = get_floats(comm, f->arena);
  ring_status status = RING_OK;
  while (status == RING_OK)
    status = ring_allreduce(comm, x, x, f->large ? LONG : 10, RING_FLOAT32, RING_SUM);
  expect_end(comm, status, expected, f->victim, text);
  put_floats(x, f->arena);
  CHECK(!arena_is_mapped());
}

/* A thread of the victim that ends or stops the process at any point. */
static void *end_soon(void *arg) {
  failing *f = arg;
  usleep(50000);
  f->since = seconds();
  raise(SIGKILL);
  return NULL;
}

static void be_killed(int rank, int size, void *shared) {
  failing *f = shared;
  ring_comm *comm = open_rank(rank, size);
  pthread_t thread;
  ranks_barrier(&f->arrived, size);
  if (rank == f->victim) {
    CHECK_INT(pthread_create(&thread, NULL, end_soon, f), 0);
    pthread_detach(thread);
    float *x = get_floats(comm, f->arena);
    for (;;) ring_allreduce(comm, x, x, f->large ? LONG : 10, RING_FLOAT32, RING_SUM);
  }
  loop_until_it_fails(comm, f, RING_PEER_LOST, "was lost during allreduce");
  CHECK(seconds() - f->since < 1.5);
}

/* Like run_ranks, but one rank is killed. `shared` begins with a failing. */
static void run_with_victim(int size, rank_function function, void *shared) {
  const failing *f = shared;
  pid_t children[8];
  fflush(NULL);
  for (int rank = 0; rank < size; rank++) {
    children[rank] = fork();
    CHECK(children[rank] >= 0);
    if (children[rank] > 0) continue;
    alarm(60);
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
}

static void run_and_free(int size, rank_function function, failing *f) {
  run_with_victim(size, function, f);
  shared_free(f, sizeof *f);
}

static void test_killed_in_the_middle(void) {
  for (int victim = 0; victim < 3; victim++) {
    run_and_free(3, be_killed, prepare(victim, false, false));
    run_and_free(3, be_killed, prepare(victim, true, true));
    run_and_free(3, be_killed, prepare(victim, false, true));
  }
}

/* The victim sleeps in a call to which rank 0 does not come. Its child outlives it. */
static void be_killed_asleep(int rank, int size, void *shared) {
  failing *f = shared;
  ring_comm *comm = open_rank(rank, size);
  pthread_t thread;
  if (rank == f->victim && fork() == 0) {
    sleep(4);
    _exit(0);
  }
  ranks_barrier(&f->arrived, size);
  if (rank == f->victim) {
    CHECK_INT(pthread_create(&thread, NULL, end_soon, f), 0);
    pthread_detach(thread);
  }
  if (rank == 0) usleep(400000);
  double begun = seconds();
  ring_status status = ring_barrier(comm); /* the victim has come to this call */
  if (status == RING_OK) status = ring_barrier(comm);
  CHECK(seconds() - begun < 3);
  expect_end(comm, status, RING_PEER_LOST, f->victim, "its process has ended");
}

static void test_killed_asleep(void) {
  run_and_free(3, be_killed_asleep, prepare(1, false, false));
}

/* Rank 0 computes for long. Rank 1, which waits for rank 0, detects that rank 2 has died. With
 * `large` rank 2 has come to the call and waits for rank 0, too. */
static void see_another_die(int rank, int size, void *shared) {
  failing *f = shared;
  ring_comm *comm = open_rank(rank, size);
  pthread_t thread;
  ranks_barrier(&f->arrived, size);
  if (rank == 2 && !f->large) raise(SIGKILL);
  if (rank == 2) {
    CHECK_INT(pthread_create(&thread, NULL, end_soon, f), 0);
    pthread_detach(thread);
  }
  if (rank == 0) sleep(3);
  double begun = seconds();
  ring_status status = ring_barrier(comm);
  CHECK(seconds() - begun < 2.8);
  expect_end(comm, status, RING_PEER_LOST, 2, "rank 2 (127.0.0.1) was lost during barrier");
}

static void test_a_death_shows_to_all_who_wait(void) {
  run_and_free(3, see_another_die, prepare(2, false, false));
  run_and_free(3, see_another_die, prepare(2, false, true));
}

static void be_stopped(int rank, int size, void *shared) {
  failing *f = shared;
  ring_options options = rank_options(rank, size);
  options.call_timeout = 0.7;
  ring_comm *comm = open_with(&options);
  ranks_barrier(&f->arrived, size);
  if (rank != f->victim) {
    loop_until_it_fails(comm, f, RING_TIMEOUT, "; last heard in");
    return;
  }
  pid_t waker = fork();
  if (waker == 0) {
    usleep(50000);
    kill(getppid(), SIGSTOP);
    sleep(4);
    kill(getppid(), SIGKILL);
    _exit(0);
  }
  float *x = get_floats(comm, f->arena);
  while (ring_allreduce(comm, x, x, f->large ? LONG : 10, RING_FLOAT32, RING_SUM) == RING_OK)
    continue;
  pause();
}

static void test_stopped_in_the_middle(void) {
  run_and_free(3, be_stopped, prepare(1, true, true));
}

static void miss_the_deadline(int rank, int size, void *shared) {
  failing *f = shared;
  ring_options options = rank_options(rank, size);
  options.call_timeout = 1;
  ring_comm *comm = open_with(&options);
  ranks_barrier(&f->arrived, size);
  double begun = seconds();
  while (rank == f->victim && *(volatile int *)&f->failed < size - 1) usleep(1000);
  float *x = get_floats(comm, f->arena);
  ring_status status = ring_broadcast(comm, x, x, f->large ? LONG : 10, RING_FLOAT32, 2);
  __sync_fetch_and_add(&f->failed, 1);
  CHECK(seconds() - begun < 5);
  if (rank == f->victim)
    expect_end(comm, status, RING_ABORTED, rank, "peers timed out waiting for this rank");
  else
    expect_end(comm, status, RING_TIMEOUT, f->victim, "for rank 2 (127.0.0.1; last heard in");
  put_floats(x, f->arena);
}

static void test_deadlines(void) {
  for (int large = 0; large < 2; large++) {
    failing *f = prepare(2, large == 1, large == 1);
    run_ranks(3, miss_the_deadline, f);
    shared_free(f, sizeof *f);
  }
}

/* A negative count is left alone: open() calls the hook, too. */
static int interrupt_the_third_time(void *arg) {
  int *asked = arg;
  return *asked >= 0 && ++*asked == 3;
}

static void be_interrupted(int rank, int size, void *shared) {
  failing *f = shared;
  int asked = -1;
  ring_options options = rank_options(rank, size);
  if (rank == f->victim) {
    options.interrupt = interrupt_the_third_time;
    options.interrupt_arg = &asked;
  }
  ring_comm *comm = open_with(&options);
  ranks_barrier(&f->arrived, size);
  asked = 0;
  if (rank == 0) ranks_barrier(&f->over, 2); /* comes once the victim has left */
  ring_status status = ring_barrier(comm);
  if (rank == f->victim) ranks_barrier(&f->over, 2);
  if (rank == f->victim) CHECK_INT(asked, 3);
  expect_end(comm, status, RING_ABORTED, f->victim, "rank 1 was interrupted during");
}

/* Ends while the other ranks sleep: by an abort, or freed without close. */
static void end_early(int rank, int size, void *shared) {
  failing *f = shared;
  ring_comm *comm = open_rank(rank, size);
  ranks_barrier(&f->arrived, size);
  if (rank == f->victim) {
    usleep(150000);
    f->since = seconds();
    if (f->large) ring_comm_abort(comm, "no more data");
    ring_comm_free(comm);
    return;
  }
  float x[10] = {0};
  ring_status status = ring_allreduce(comm, x, x, 10, RING_FLOAT32, RING_SUM);
  CHECK(seconds() - f->since < 2);
  expect_end(comm, status, RING_ABORTED, f->victim,
             f->large ? "no more data" : "it dropped it without closing it");
}

static void test_interrupts_and_aborts(void) {
  failing *f = prepare(1, false, false);
  run_ranks(3, be_interrupted, f);
  *f = (failing){.victim = 2, .large = true};
  run_ranks(3, end_early, f);
  *f = (failing){.victim = 0};
  run_ranks(3, end_early, f);
  shared_free(f, sizeof *f);
}

/* The root fails while the other ranks are in the middle of a large broadcast. It returns once they
 * no longer use its buffer. */
static void give_up_while_read(int rank, int size, void *shared) {
  atomic_int *left = shared;
  ring_options options = rank_options(rank, size);
  options.call_timeout = 1;
  ring_comm *comm = open_with(&options);
  if (rank == 0) {
    float *x = get_floats(comm, true);
    CHECK_INT(ring_broadcast(comm, x, x, LONG, RING_FLOAT32, 0), RING_TIMEOUT);
    CHECK_INT(atomic_load(left), 2);
    ring_free(x);
  } else {
    ring_call call = {.collective = RING_COLLECTIVE_BROADCAST,
                      .dtype = RING_FLOAT32,
                      .count = LONG,
                      .sequence = comm->sequence + 1};
    ring_wait wait;
    ring_error error;
    ring_shm_call begun;
    ring_wait_init(&wait, 10, NULL, NULL);
    CHECK_INT(ring_shm_begin(&comm->shm, &call, RING_SLOTS, &wait, &error, &begun), RING_OK);
    ring_shm_publish(&begun);
    while (!ring_shm_failed(&comm->shm, NULL, &error)) usleep(1000);
    usleep(350000); /* the failure takes 0.2 s to spread; the root waits for 0.5 s */
    atomic_fetch_add(left, 1);
    ring_shm_finish(&begun);
  }
  ring_comm_free(comm);
}

static void test_buffers_are_left_alone_after_a_failure(void) {
  RUN_RANKS(3, give_up_while_read, (atomic_int[16]){0});
}

/* ---- In calls of several pieces ----------------------------------------------------------- */

/* Where the ranks are when rank 0 fails: how many pieces rank 0 has published, by how many rank 1
 * is behind and rank 2 is ahead of it, and whether rank 0 waits in the next piece. */
typedef struct position {
  int arrived;
  uint32_t pieces, behind, ahead;
  bool waits;
  atomic_int left;
} position;

/* Enters a large call and completes `pieces` of it. Publishes the last one, or only begins it; the
 * begin may time out. */
static ring_shm_call enter_large_call(ring_comm *comm, uint32_t pieces, bool publishes) {
  static const ring_call call = {.collective = RING_COLLECTIVE_BROADCAST, .count = LONG};
  static ring_wait wait;
  static ring_error error;
  ring_shm *shm = &comm->shm;
  ring_shm_call begun;
  ring_wait_init(&wait, 10, NULL, NULL);
  for (uint32_t i = 0; i <= pieces; i++) {
    uint32_t depth = i == 0 ? RING_SLOTS : RING_STAGING_BUFFERS;
    bool last = i == pieces && !publishes;
    if (last) ring_wait_init(&wait, 0.05, NULL, NULL);
    ring_status status = ring_shm_begin(shm, &call, depth, &wait, &error, &begun);
    CHECK(status == RING_OK || (last && status == RING_TIMEOUT));
    if (i == 0) shm->entered = shm->sequence;
    if (!last) ring_shm_publish(&begun);
  }
  shm->exposed = true;
  return begun;
}

static void fail_between_pieces(int rank, int size, void *shared) {
  position *s = shared;
  ring_error error;
  ring_comm *comm = open_rank(rank, size);
  uint32_t pieces = rank == 0 ? s->pieces + s->waits : s->pieces;
  if (rank == 1) pieces -= s->behind;
  if (rank == 2) pieces += s->ahead;
  ring_shm_call begun = enter_large_call(comm, pieces, rank != 0 || !s->waits);
  ranks_barrier(&s->arrived, size);
  if (rank == 0) {
    double since = seconds();
    ring_error_set(&error, RING_ABORTED, rank, 0, "enough");
    ring_shm_fail(&comm->shm, &error);
    CHECK_INT(atomic_load(&s->left), 2);
    CHECK(seconds() - since < 3);
  } else {
    comm->shm.exposed = false;
    usleep(rank == 1 ? 60000 : 30000);
    atomic_fetch_add(&s->left, 1);
    ring_shm_finish(&begun);
  }
  ring_comm_free(comm);
}

/* However many pieces the other ranks are ahead or behind, rank 0 detects that they are in the
 * call. (An abort would wait for links, too.) */
static void test_failure_between_pieces(void) {
  static const uint32_t places[][4] = {{0, 0, 0, 0}, {0, 0, 3, 0}, {0, 0, 0, 1}, {1, 1, 1, 0},
                                       {1, 1, 2, 1}, {6, 0, 0, 0}, {6, 1, 0, 1}, {6, 2, 1, 1},
                                       {6, 3, 0, 0}, {6, 3, 0, 1}, {6, 0, 3, 0}, {6, 0, 3, 1},
                                       {6, 1, 2, 1}};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    RUN_RANKS(3, fail_between_pieces,
              (position){.pieces = places[i][0],
                         .behind = places[i][1],
                         .ahead = places[i][2],
                         .waits = places[i][3] != 0});
  }
}

enum { PIECEWISE = 6 };

/* A collective of several pieces, since some buffers lie outside of the arena. */
static ring_status call_in_pieces(ring_comm *comm, int which, const float *x, float *y) {
  switch (which) {
  case 0:
    return ring_allreduce(comm, x, y, LONG, RING_FLOAT32, RING_SUM);
  case 1:
    return ring_allgather(comm, x, y, LONG / 3, RING_FLOAT32);
  case 2:
    return ring_alltoall(comm, x, y, LONG / 3, RING_FLOAT32);
  case 3:
    return ring_reduce_scatter(comm, x, y, LONG / 3, RING_FLOAT32, RING_SUM);
  case 4:
    return ring_gather(comm, x, y, LONG / 3, RING_FLOAT32, 1);
  default:
    return ring_broadcast(comm, x, y, LONG, RING_FLOAT32, 1);
  }
}

/* The buffers of some ranks lie in the arena. Those of rank 1, the root, do not. */
typedef struct piecewise {
  failing failing;
  int which, ended;
  unsigned arena; /* a bit for each rank */
  unsigned stop;  /* microseconds for which the victim is stopped */
} piecewise;

static void be_killed_between_pieces(int rank, int size, void *shared) {
  piecewise *w = shared;
  failing *f = &w->failing;
  ring_comm *comm = open_rank(rank, size);
  bool arena = w->arena >> rank & 1;
  float *x = get_floats(comm, arena), *y = get_floats(comm, arena);
  ring_status status = RING_OK;
  pthread_t thread;
  ranks_barrier(&f->arrived, size);
  if (rank == f->victim) {
    CHECK_INT(pthread_create(&thread, NULL, end_soon, f), 0);
    pthread_detach(thread);
  }
  while (status == RING_OK) status = call_in_pieces(comm, w->which, x, y);
  CHECK(rank != f->victim);
  CHECK(seconds() - f->since < 1.5);
  expect_end(comm, status, RING_PEER_LOST, f->victim, "was lost during");
  put_floats(x, arena);
  put_floats(y, arena);
}

static void test_killed_between_pieces(void) {
  for (int which = 0; which < PIECEWISE; which++) {
    piecewise *w = shared_alloc(sizeof *w);
    *w = (piecewise){.failing.victim = which % 3, .which = which, .arena = which % 2 ? 1 : 5};
    run_with_victim(3, be_killed_between_pieces, w);
    shared_free(w, sizeof *w);
  }
}

/* A child that stops its parent; again if no rank has timed out, since a rank that was starved
 * meanwhile does not. */
static pid_t stop_for_long(const piecewise *w) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child > 0) return child;
  for (int tries = 0; tries < 20 && *(const volatile int *)&w->ended == 0; tries++) {
    usleep(20000);
    kill(getppid(), SIGSTOP);
    usleep(w->stop);
    kill(getppid(), SIGCONT);
  }
  _exit(0);
}

static void check_untouched(const float *x, float value) {
  for (int i = 0; i < LONG; i++) CHECK(x[i] == value);
}

/* Rank 0 times out while rank 1 is stopped anywhere in the call, and reuses its buffers once the
 * call has returned. */
static void be_impatient(int rank, int size, void *shared) {
  piecewise *w = shared;
  failing *f = &w->failing;
  ring_options options = rank_options(rank, size);
  ring_status status = RING_OK;
  pid_t child = 0;
  bool arena = w->arena >> rank & 1;
  if (rank == 0) options.call_timeout = 0.2;
  ring_comm *comm = open_with(&options);
  float *x = get_floats(comm, arena), *y = get_floats(comm, arena);
  ranks_barrier(&f->arrived, size);
  if (rank == f->victim) child = stop_for_long(w);
  while (status == RING_OK) status = call_in_pieces(comm, w->which, x, y);
  /* The other ranks may have timed out waiting for a rank that was starved. */
  CHECK(status == RING_TIMEOUT || (rank > 0 && status == RING_ABORTED));
  for (int i = 0; i < LONG; i++) x[i] = y[i] = (float)(rank + 1);
  ranks_barrier(&w->ended, size);
  check_untouched(x, (float)(rank + 1));
  check_untouched(y, (float)(rank + 1));
  if (child > 0) CHECK(waitpid(child, NULL, 0) == child);
  ring_comm_free(comm);
  put_floats(x, arena);
  put_floats(y, arena);
}

static void stop_rank_one(unsigned microseconds, unsigned even, unsigned odd) {
  for (int which = 0; which < PIECEWISE; which++) {
    piecewise *w = shared_alloc(sizeof *w);
    *w = (piecewise){.failing.victim = 1, .which = which, .stop = microseconds};
    w->arena = which % 2 ? odd : even;
    run_ranks(3, be_impatient, w);
    shared_free(w, sizeof *w);
  }
}

/* Stopped for less time than the other ranks wait for it to leave the call; and for more, after
 * which its writes must not reach their buffers. */
static void test_nobody_writes_after_a_failure(void) {
  stop_rank_one(400000, 1, 5);
  stop_rank_one(1200000, 7, 5);
}

/* ---- Other calls -------------------------------------------------------------------------- */

/* Ranks 0 and 1 both act as the root of a gather and wait until the other ranks need nothing more
 * of the call. Both see that in the end, but their calls differ. */
static void gather_at_two_roots(ring_comm *comm, float *x, float *y) {
  int rank = ring_comm_rank(comm), root = rank == 1 ? 1 : 0;
  ring_status status = ring_gather(comm, x, y, LONG / 4, RING_FLOAT32, root);
  if (rank < 2 || status != RING_OK) CHECK_INT(status, RING_MISMATCH);
  CHECK_INT(ring_comm_close(comm), RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "float32, root 0)");
  CHECK_CONTAINS(ring_comm_error(comm)->message, "float32, root 1)");
}

static void have_two_roots(int rank, int size, void *shared) {
  failing *f = shared;
  ring_comm *comm = open_rank(rank, size);
  float *x = get_floats(comm, f->arena), *y = get_floats(comm, f->arena);
  ranks_barrier(&f->arrived, size);
  gather_at_two_roots(comm, x, y);
  put_floats(x, f->arena);
  put_floats(y, f->arena);
  ring_comm_free(comm);
}

static void test_two_roots(void) {
  for (int arena = 0; arena < 2; arena++) {
    failing *f = prepare(0, arena, true);
    run_ranks(3, have_two_roots, f);
    shared_free(f, sizeof *f);
  }
}

int main(void) {
  RUN(test_killed_in_the_middle);
  RUN(test_killed_asleep);
  RUN(test_a_death_shows_to_all_who_wait);
  RUN(test_stopped_in_the_middle);
  RUN(test_deadlines);
  RUN(test_interrupts_and_aborts);
  RUN(test_buffers_are_left_alone_after_a_failure);
  RUN(test_failure_between_pieces);
  RUN(test_killed_between_pieces);
  RUN(test_nobody_writes_after_a_failure);
  RUN(test_two_roots);
  return 0;
}
