/* SPDX-License-Identifier: Apache-2.0
 *
 * How ranks fail in shared memory: a rank that dies, stops, is late, is interrupted or gives up,
 * asleep or in the middle of a call, of several windows, too. All others fail within a second or so
 * with the name of the rank at fault, and a rank returns from a call that failed when nobody reads
 * or writes its buffers any more.
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

/* What every test of a failure does on every rank. */
typedef struct failing {
  int met, over; /* how many have come to the beginning, or the end */
  int victim;
  bool arena, large;
  double since; /* when it happened */
  int failed;   /* ranks that have given up */
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

/* A thread of the victim that ends or stops the process in the middle of whatever it does. */
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
  meet_ranks(&f->met, size);
  if (rank == f->victim) {
    CHECK_INT(pthread_create(&thread, NULL, end_soon, f), 0);
    pthread_detach(thread);
    float *x = get_floats(comm, f->arena);
    for (;;) ring_allreduce(comm, x, x, f->large ? LONG : 10, RING_FLOAT32, RING_SUM);
  }
  loop_until_it_fails(comm, f, RING_PEER_LOST, "was lost during allreduce");
  CHECK(seconds() - f->since < 1.5);
}

/* As run_ranks, but one of them is killed. `shared` begins with a failing. */
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

/* The victim sleeps in a call that rank 0 does not come to; it has a child that lives on. */
static void be_killed_asleep(int rank, int size, void *shared) {
  failing *f = shared;
  ring_comm *comm = open_rank(rank, size);
  pthread_t thread;
  if (rank == f->victim && fork() == 0) {
    sleep(4);
    _exit(0);
  }
  meet_ranks(&f->met, size);
  if (rank == f->victim) {
    CHECK_INT(pthread_create(&thread, NULL, end_soon, f), 0);
    pthread_detach(thread);
  }
  if (rank == 0) usleep(400000);
  double begun = seconds();
  ring_status status = ring_barrier(comm); /* it has come to this one */
  if (status == RING_OK) status = ring_barrier(comm);
  CHECK(seconds() - begun < 3);
  expect_end(comm, status, RING_PEER_LOST, f->victim, "its process has ended");
}

static void test_killed_asleep(void) {
  run_and_free(3, be_killed_asleep, prepare(1, false, false));
}

/* Rank 0 computes for long: that rank 2 has died shows to rank 1, which waits for rank 0. With
 * `large` rank 2 has come to the call and waits for rank 0, too. */
static void see_another_die(int rank, int size, void *shared) {
  failing *f = shared;
  ring_comm *comm = open_rank(rank, size);
  pthread_t thread;
  meet_ranks(&f->met, size);
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
  ring_comm *comm;
  options.call_timeout = 0.7;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  meet_ranks(&f->met, size);
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
  ring_comm *comm;
  options.call_timeout = 1;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  meet_ranks(&f->met, size);
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

/* Negative numbers are left alone: open asks, too. */
static int interrupt_the_third_time(void *arg) {
  int *asked = arg;
  return *asked >= 0 && ++*asked == 3;
}

static void be_interrupted(int rank, int size, void *shared) {
  failing *f = shared;
  int asked = -1;
  ring_options options = rank_options(rank, size);
  ring_comm *comm;
  if (rank == f->victim) {
    options.interrupt = interrupt_the_third_time;
    options.interrupt_arg = &asked;
  }
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  meet_ranks(&f->met, size);
  asked = 0;
  if (rank == 0) meet_ranks(&f->over, 2); /* comes when the victim has gone */
  ring_status status = ring_barrier(comm);
  if (rank == f->victim) meet_ranks(&f->over, 2);
  if (rank == f->victim) CHECK_INT(asked, 3);
  expect_end(comm, status, RING_ABORTED, f->victim, "rank 1 was interrupted during");
}

/* Ends while the others sleep: by an abort, or freed without a word. */
static void end_early(int rank, int size, void *shared) {
  failing *f = shared;
  ring_comm *comm = open_rank(rank, size);
  meet_ranks(&f->met, size);
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

/* The others have come to a long broadcast and are in the middle of it when the root gives up: it
 * returns once they have left its buffer alone. */
static void give_up_while_read(int rank, int size, void *shared) {
  atomic_int *left = shared;
  ring_options options = rank_options(rank, size);
  ring_comm *comm;
  options.call_timeout = 1;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
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
    usleep(350000); /* the failure is told for 0.2 s; the root waits for 0.5 s */
    atomic_fetch_add(left, 1);
    ring_shm_finish(&begun);
  }
  ring_comm_free(comm);
}

static void test_buffers_are_left_alone_after_a_failure(void) {
  atomic_int *left = shared_alloc(64);
  run_ranks(3, give_up_while_read, left);
  shared_free(left, 64);
}

/* ---- In calls of several windows ---------------------------------------------------------- */

/* Where the ranks are when rank 0 gives up: how many windows it has published, by how many rank 1
 * is behind and rank 2 ahead of it, and whether it waits in the next one. */
typedef struct stand {
  int met;
  uint32_t windows, behind, ahead;
  bool waits;
  atomic_int left;
} stand;

/* Goes into a long call and through `windows` of it; publishes the last one, or only begins it,
 * which it may wait for in vain. */
static ring_shm_call go_into(ring_comm *comm, uint32_t windows, bool publishes) {
  static const ring_call call = {.collective = RING_COLLECTIVE_BROADCAST, .count = LONG};
  static ring_wait wait;
  static ring_error error;
  ring_shm *shm = &comm->shm;
  ring_shm_call begun;
  ring_wait_init(&wait, 10, NULL, NULL);
  for (uint32_t i = 0; i <= windows; i++) {
    uint32_t depth = i == 0 ? RING_SLOTS : RING_STAGING_BUFFERS;
    bool last = i == windows && !publishes;
    if (last) ring_wait_init(&wait, 0.05, NULL, NULL);
    ring_status status = ring_shm_begin(shm, &call, depth, &wait, &error, &begun);
    CHECK(status == RING_OK || (last && status == RING_TIMEOUT));
    if (i == 0) shm->entered = shm->sequence;
    if (!last) ring_shm_publish(&begun);
  }
  shm->exposed = true;
  return begun;
}

static void give_up_between_windows(int rank, int size, void *shared) {
  stand *s = shared;
  ring_error error;
  ring_comm *comm = open_rank(rank, size);
  uint32_t windows = rank == 0 ? s->windows + s->waits : s->windows;
  if (rank == 1) windows -= s->behind;
  if (rank == 2) windows += s->ahead;
  ring_shm_call begun = go_into(comm, windows, rank != 0 || !s->waits);
  meet_ranks(&s->met, size);
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

/* However many windows the others are ahead or behind, they are seen to be in the call. (An abort
 * would wait for links, too.) */
static void test_giving_up_between_windows(void) {
  static const uint32_t places[][4] = {{0, 0, 0, 0}, {0, 0, 3, 0}, {0, 0, 0, 1}, {1, 1, 1, 0},
                                       {1, 1, 2, 1}, {6, 0, 0, 0}, {6, 1, 0, 1}, {6, 2, 1, 1},
                                       {6, 3, 0, 0}, {6, 3, 0, 1}, {6, 0, 3, 0}, {6, 0, 3, 1},
                                       {6, 1, 2, 1}};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    stand *s = shared_alloc(sizeof *s);
    s->windows = places[i][0];
    s->behind = places[i][1];
    s->ahead = places[i][2];
    s->waits = places[i][3] != 0;
    run_ranks(3, give_up_between_windows, s);
    shared_free(s, sizeof *s);
  }
}

enum { WINDOWED = 6 };

/* A collective of several windows, as some buffers lie outside of the arena. */
static ring_status call_windowed(ring_comm *comm, int which, const float *x, float *y) {
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

/* The buffers of some ranks lie in the arena, those of others do not; those of
 * rank 1, the root, do not. */
typedef struct windowed {
  failing failing;
  int which, ended;
  unsigned arena; /* a bit for each rank */
  unsigned stop;  /* microseconds that the victim is stopped for */
} windowed;

static void be_killed_between_windows(int rank, int size, void *shared) {
  windowed *w = shared;
  failing *f = &w->failing;
  ring_comm *comm = open_rank(rank, size);
  bool arena = w->arena >> rank & 1;
  float *x = get_floats(comm, arena), *y = get_floats(comm, arena);
  ring_status status = RING_OK;
  pthread_t thread;
  meet_ranks(&f->met, size);
  if (rank == f->victim) {
    CHECK_INT(pthread_create(&thread, NULL, end_soon, f), 0);
    pthread_detach(thread);
  }
  while (status == RING_OK) status = call_windowed(comm, w->which, x, y);
  CHECK(rank != f->victim);
  CHECK(seconds() - f->since < 1.5);
  expect_end(comm, status, RING_PEER_LOST, f->victim, "was lost during");
  put_floats(x, arena);
  put_floats(y, arena);
}

static void test_killed_between_windows(void) {
  for (int which = 0; which < WINDOWED; which++) {
    windowed *w = shared_alloc(sizeof *w);
    *w = (windowed){.failing.victim = which % 3, .which = which, .arena = which % 2 ? 1 : 5};
    run_with_victim(3, be_killed_between_windows, w);
    shared_free(w, sizeof *w);
  }
}

/* A child that stops its parent; again when nobody has lost patience, as who was starved meanwhile does
 * not. */
static pid_t stop_for_long(const windowed *w) {
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

/* Rank 0 loses its patience while rank 1, stopped, is anywhere in the call, and uses its buffers
 * for something else once the call has returned. */
static void be_impatient(int rank, int size, void *shared) {
  windowed *w = shared;
  failing *f = &w->failing;
  ring_options options = rank_options(rank, size);
  ring_comm *comm;
  ring_status status = RING_OK;
  pid_t child = 0;
  bool arena = w->arena >> rank & 1;
  if (rank == 0) options.call_timeout = 0.2;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  float *x = get_floats(comm, arena), *y = get_floats(comm, arena);
  meet_ranks(&f->met, size);
  if (rank == f->victim) child = stop_for_long(w);
  while (status == RING_OK) status = call_windowed(comm, w->which, x, y);
  /* A rank that was starved may be what the others gave up. */
  CHECK(status == RING_TIMEOUT || (rank > 0 && status == RING_ABORTED));
  for (int i = 0; i < LONG; i++) x[i] = y[i] = (float)(rank + 1);
  meet_ranks(&w->ended, size);
  check_untouched(x, (float)(rank + 1));
  check_untouched(y, (float)(rank + 1));
  if (child > 0) CHECK(waitpid(child, NULL, 0) == child);
  ring_comm_free(comm);
  put_floats(x, arena);
  put_floats(y, arena);
}

static void stop_rank_one(unsigned microseconds, unsigned even, unsigned odd) {
  for (int which = 0; which < WINDOWED; which++) {
    windowed *w = shared_alloc(sizeof *w);
    *w = (windowed){.failing.victim = 1, .which = which, .stop = microseconds};
    w->arena = which % 2 ? odd : even;
    run_ranks(3, be_impatient, w);
    shared_free(w, sizeof *w);
  }
}

/* For less time than the others wait for it to leave the call; and for more, when what it writes must
 * not reach them. */
static void test_nobody_writes_after_a_failure(void) {
  stop_rank_one(400000, 1, 5);
  stop_rank_one(1200000, 7, 5);
}

/* ---- Other calls -------------------------------------------------------------------------- */

/* Ranks 0 and 1 both take themselves for the root of a gather and wait until the others need nothing
 * more of it, which both do in the end, but have not called the same. */
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
  meet_ranks(&f->met, size);
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
  RUN(test_giving_up_between_windows);
  RUN(test_killed_between_windows);
  RUN(test_nobody_writes_after_a_failure);
  RUN(test_two_roots);
  return 0;
}
