/* SPDX-License-Identifier: Apache-2.0
 *
 * How ranks fail in calls of several pieces in shared memory: between any two pieces, however far the
 * ranks are apart. A rank returns from a failed call once no other rank reads or writes its buffers.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/comm_state.h"
#include "base/error.h"
#include "buffers.h"
#include "check.h"
#include "load.h"
#include "shm/shm_failure.h"
#include "shm/sync.h"
#include "victims.h"

enum { LONG = 1500000 };

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
    CHECK(seconds() - since < UNLOADED(3));
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
  float *x = buffer_alloc(comm, arena, LONG * sizeof(float)),
        *y = buffer_alloc(comm, arena, LONG * sizeof(float));
  ring_status status = RING_OK;
  ranks_barrier(&f->arrived, size);
  if (rank == f->victim) {
    be_killed_soon(f);
  }
  while (status == RING_OK) status = call_in_pieces(comm, w->which, x, y);
  CHECK(rank != f->victim);
  CHECK(seconds() - f->since < UNLOADED(1.5));
  expect_end(comm, status, RING_PEER_LOST, f->victim, "was lost during");
  buffer_free(x, arena);
  buffer_free(y, arena);
}

static void test_killed_between_pieces(void) {
  for (int which = 0; which < PIECEWISE; which++) {
    piecewise w = {.failing.victim = which % 3, .which = which, .arena = which % 2 ? 1 : 5};
    RUN_WITH_VICTIM(3, be_killed_between_pieces, w);
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
  float *x = buffer_alloc(comm, arena, LONG * sizeof(float)),
        *y = buffer_alloc(comm, arena, LONG * sizeof(float));
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
  buffer_free(x, arena);
  buffer_free(y, arena);
}

static void stop_rank_one(unsigned microseconds, unsigned even, unsigned odd) {
  for (int which = 0; which < PIECEWISE; which++) {
    piecewise w = {.failing.victim = 1, .which = which, .stop = microseconds};
    w.arena = which % 2 ? odd : even;
    RUN_RANKS(3, be_impatient, w);
  }
}

/* Stopped for less time than the other ranks wait for it to leave the call; and for more, after
 * which its writes must not reach their buffers. */
static void test_nobody_writes_after_a_failure(void) {
  stop_rank_one(400000, 1, 5);
  stop_rank_one(1200000, 7, 5);
}

int main(void) {
  RUN(test_failure_between_pieces);
  RUN(test_killed_between_pieces);
  RUN(test_nobody_writes_after_a_failure);
  return 0;
}
