/* SPDX-License-Identifier: Apache-2.0
 *
 * How the ranks of a shm group wait for each other: sleepers are woken, ranks run ahead of each other as far
 * as the slots reach and no further, and the numbers of calls may wrap.
 */
#include <unistd.h>

#include "api/comm_state.h"
#include "check.h"
#include "load.h"
#include "openings.h"
#include "ranks.h"
#include "shm/sync.h"

/* One rank after the other is late; a rank that missed a wake-up would lose 100 ms. */
static void be_late_in_turn(ring_comm *comm, void *shared) {
  enum { TURNS = 60 };
  (void)shared;
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  float *x = calloc(20000, sizeof *x);
  ring_counters counters;
  double begun = seconds();
  for (int turn = 0; turn < TURNS; turn++) {
    if (turn % size == rank) usleep(3000);
    if (turn % 3 == 0) CHECK_INT(ring_barrier(comm), RING_OK);
    if (turn % 3 == 1)
      CHECK_INT(ring_allreduce(comm, x, x, 20000, RING_FLOAT32, RING_SUM), RING_OK);
    if (turn % 3 == 2)
      CHECK_INT(ring_broadcast(comm, x, x, 20000, RING_FLOAT32, turn % size), RING_OK);
  }
  CHECK(seconds() - begun < UNLOADED(4.5)); /* each missed wake-up takes 0.1 s */
  CHECK_INT(ring_comm_counters(comm, -1, &counters), RING_OK);
  CHECK(counters.wait_ns > 0);
  free(x);
}

/* The bytes that a call adds to the counter of shared bytes. */
#define SHARES(comm, call, bytes)                                                                  \
  do {                                                                                             \
    ring_counters before, after;                                                                   \
    CHECK_INT(ring_comm_counters(comm, -1, &before), RING_OK);                                     \
    CHECK_INT(call, RING_OK);                                                                      \
    CHECK_INT(ring_comm_counters(comm, -1, &after), RING_OK);                                      \
    CHECK_INT(after.bytes_shared - before.bytes_shared, bytes);                                    \
    CHECK_INT(after.bytes_sent, before.bytes_sent);                                                \
    CHECK_INT(after.messages_sent, before.messages_sent);                                          \
  } while (0)

/* Small calls use slots, large calls the arena or bounce buffers: the counter is the same. */
static void count_what_is_shared(ring_comm *comm, void *shared) {
  (void)shared;
  int rank = ring_comm_rank(comm), root = 1;
  for (size_t n = 3; n <= 30000; n *= 100) { /* three ranks, 4 bytes each */
    const size_t parts[] = {n, 0, 2 * n};
    float *x = calloc(3 * n, sizeof *x), *y = calloc(3 * n, sizeof *y);
    SHARES(comm, ring_barrier(comm), 0);
    SHARES(comm, ring_allreduce(comm, x, y, n, RING_FLOAT32, RING_SUM), 4 * n);
    SHARES(comm, ring_broadcast(comm, x, y, n, RING_FLOAT32, root), rank == root ? 4 * n : 0);
    SHARES(comm, ring_reduce(comm, x, y, n, RING_FLOAT32, RING_SUM, root),
           rank == root ? 0 : 4 * n);
    SHARES(comm, ring_reduce_scatter(comm, x, y, n, RING_FLOAT32, RING_SUM), 8 * n);
    SHARES(comm, ring_alltoall(comm, x, y, n, RING_FLOAT32), 8 * n);
    SHARES(comm, ring_allgather(comm, x, y, n, RING_FLOAT32), 4 * n);
    SHARES(comm, ring_allgatherv(comm, x, y, parts, RING_FLOAT32), 4 * parts[rank]);
    SHARES(comm, ring_gatherv(comm, x, y, parts, RING_FLOAT32, 0), rank == 0 ? 0 : 4 * parts[rank]);
    SHARES(comm, ring_scatter(comm, x, y, n, RING_FLOAT32, root), rank == root ? 8 * n : 0);
    SHARES(comm, ring_scatterv(comm, x, y, parts, RING_FLOAT32, 0), rank == 0 ? 8 * n : 0);
    free(x);
    free(y);
  }
}

static void test_what_is_shared_is_counted(void) {
  run_comms(3, count_what_is_shared, NULL);
}

static void test_sleepers_are_woken(void) {
  run_comms(3, be_late_in_turn, NULL);
}

/* Roots and leaves run ahead of each other as far as the slots reach; every result is right. */
static void run_ahead(ring_comm *comm, void *shared) {
  (void)shared;
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  for (int i = 0; i < 3000; i++) {
    int64_t x[100] = {0}, sum = 0;
    int root = i / 50 % size;
    x[99] = rank == root ? i : -1;
    CHECK_INT(ring_broadcast(comm, x, x, 100, RING_INT64, root), RING_OK);
    CHECK_INT(x[99], i);
    x[0] = i + rank;
    CHECK_INT(ring_reduce(comm, x, &sum, 1, RING_INT64, RING_SUM, root), RING_OK);
    if (rank == root) CHECK_INT(sum, (int64_t)size * i + size * (size - 1) / 2);
    if (i % 700 == rank * 3) usleep(2000);
  }
}

/* Rank 0 publishes as many calls as it has slots, or staging buffers. Rank 1 has come to the first
 * call and is still in it. Until it finishes rank 0 must not overwrite its payload of that call,
 * whether rank 0 has awaited rank 1 or not. */
static void read_slowly(ring_comm *comm, void *shared) {
  atomic_int *finished = shared;
  static const ring_call call = {.collective = RING_COLLECTIVE_BARRIER};
  ring_wait wait;
  ring_error error;
  ring_shm_call begun;
  for (int round = 0; round < 4; round++) {
    bool awaits = round % 2 == 1;
    int depth = round < 2 ? RING_SLOTS : RING_STAGING_BUFFERS;
    ring_wait_init(&wait, 10, NULL, NULL);
    CHECK_INT(ring_barrier(comm), RING_OK);
    for (int i = 0; i < depth + 1; i++) {
      bool first = i == 0, last = i == depth;
      if (ring_comm_rank(comm) == 1 && i == 1) {
        usleep(60000);
        atomic_store(finished, round + 1);
      }
      CHECK_INT(ring_shm_begin(&comm->shm, &call, (uint32_t)depth, &wait, &error, &begun), RING_OK);
      if (ring_comm_rank(comm) == 0 && last) CHECK_INT(atomic_load(finished), round + 1);
      ring_shm_publish(&begun);
      if (ring_comm_rank(comm) == 0 && first && awaits)
        CHECK_INT(ring_shm_await(&begun, 1), RING_OK);
    }
  }
}

static void test_slots_wait_for_slow_readers(void) {
  RUN_COMMS(2, read_slowly, (atomic_int[16]){0});
}

/* As if the ranks had made `jump` more calls, of which the last, with `last`, was a large call. */
static void jump_ahead(ring_comm *comm, int *arrived, uint32_t jump, bool last) {
  ring_shm *shm = &comm->shm;
  ring_rank_block *rank_block = ring_shm_rank_block(shm, shm->index);
  CHECK_INT(jump % RING_SLOTS, 0);
  ranks_barrier(arrived, shm->size);
  for (int i = 0; i < RING_SLOTS; i++)
    atomic_fetch_add(&rank_block->slots[i].flag, (uint64_t)jump << 32);
  if (last) atomic_fetch_add(&rank_block->done, (uint64_t)jump << 32);
  shm->sequence += jump;
  for (int i = 0; i < shm->size; i++) shm->seen[i] += jump;
  shm->settled += jump;
  ranks_barrier(arrived + 1, shm->size);
}

/* The number of a call wraps after 2^32 calls. */
static void go_around(ring_comm *comm, void *shared) {
  CHECK_INT(ring_barrier(comm), RING_OK);
  uint32_t jump = UINT32_MAX - 100 - comm->shm.sequence;
  jump_ahead(comm, shared, jump - jump % RING_SLOTS, true);
  run_ahead(comm, NULL);
  CHECK(comm->shm.sequence < 10000);
  check_ring(comm);
}

/* A large call after 2^31 small calls: the flag by which a rank finished the last large call is not
 * taken for that of the new call. */
static void be_long_again(ring_comm *comm, void *shared) {
  static const ring_call call = {.collective = RING_COLLECTIVE_BARRIER};
  atomic_int *finished = (atomic_int *)shared + 2;
  ring_shm_call begun;
  ring_error error;
  ring_wait wait;
  float *x = calloc(20000, sizeof *x);
  ring_wait_init(&wait, 10, NULL, NULL);
  CHECK_INT(ring_allreduce(comm, x, x, 20000, RING_FLOAT32, RING_SUM), RING_OK);
  uint32_t jump = (UINT32_C(1) << 31) + (UINT32_C(1) << 25) - 20 - comm->shm.sequence;
  jump_ahead(comm, shared, jump - jump % RING_SLOTS, false);
  for (int i = 0; i < 200; i++) CHECK_INT(ring_barrier(comm), RING_OK);
  CHECK_INT(ring_shm_begin(&comm->shm, &call, RING_SLOTS, &wait, &error, &begun), RING_OK);
  ring_shm_publish(&begun);
  if (ring_comm_rank(comm) == 1) {
    usleep(60000);
    atomic_store(finished, 1);
  }
  ring_shm_finish(&begun);
  if (ring_comm_rank(comm) == 0) CHECK_INT(ring_shm_await_finish(&begun, 1), RING_OK);
  CHECK_INT(atomic_load(finished), 1);
  free(x);
}

static void test_ranks_run_ahead(void) {
  for (int size = 2; size <= 4; size++) run_comms(size, run_ahead, NULL);
  RUN_COMMS(3, go_around, (int[16]){0});
}

static void test_long_after_many_short_calls(void) {
  RUN_COMMS(2, be_long_again, (int[16]){0});
}

int main(void) {
  RUN(test_sleepers_are_woken);
  RUN(test_what_is_shared_is_counted);
  RUN(test_slots_wait_for_slow_readers);
  RUN(test_ranks_run_ahead);
  RUN(test_long_after_many_short_calls);
  return 0;
}
