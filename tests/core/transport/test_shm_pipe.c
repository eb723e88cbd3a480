/* SPDX-License-Identifier: Apache-2.0
 *
 * Links through shared memory, beyond the promises of test_link.c: a peer that writes nonsense into the
 * shared pages does no harm, and communicators run over them.
 */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/comm_state.h"
#include "check.h"
#include "pairs.h"
#include "ranks.h"

#define CAPACITY (RING_PIPE_BYTES - 4096)

/* ---- Nonsense ----------------------------------------------------------------------------- */

enum { CONTROL_WORDS = 64, MANY = 2 * CAPACITY };

static uint8_t many[MANY];

/* A pair in which bytes have moved both ways and some lie unread. */
static void nonsense_begin(pair *of, ring_link *links[2]) {
  pair_open(of, SHM, links);
  for (int side = 0; side < 2; side++) {
    CHECK_INT(link_send(links[side], many, 70000), 70000);
    CHECK_INT(link_receive(links[1 - side], many, 30000), 30000);
  }
}

/* A verb after nonsense: bytes of the buffer, or a refusal. Pages that nobody may touch lie around
 * the shared ones. */
static int nonsense_refused(ssize_t moved) {
  CHECK(moved == -EPROTO || (moved >= 0 && moved <= MANY));
  return moved == -EPROTO ? 1 : 0;
}

static int nonsense_word(int pipe, int word, uint64_t nonsense) {
  pair of;
  ring_link *links[2];
  int refused = 0;
  nonsense_begin(&of, links);
  memcpy(of.pipe[pipe] + 8 * word, &nonsense, sizeof nonsense);
  for (int tries = 0; tries < 3; tries++) {
    refused += nonsense_refused(links[0]->ops->peek(links[0], many, MANY));
    refused += nonsense_refused(link_receive(links[0], many, MANY));
    refused += nonsense_refused(link_send(links[0], many, MANY));
  }
  pair_close(&of, links);
  return refused;
}

/* Every word of the control page takes every value, in both directions. What side 0 reads of side 1
 * are two counts, one a direction, and only they can make it refuse. */
static void test_nonsense(void) {
  static const uint64_t values[] = {
      0,         1, 29999, 70001, CAPACITY, CAPACITY + 70001, (uint64_t)1 << 32, (uint64_t)1 << 63,
      UINT64_MAX};
  int words = 0;
  for (int pipe = 0; pipe < 2; pipe++) {
    for (int word = 0; word < CONTROL_WORDS; word++) {
      int refused = 0;
      for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        refused += nonsense_word(pipe, word, values[i]);
      words += refused > 0 ? 1 : 0;
    }
  }
  CHECK_INT(words, 2);
}

/* ---- Communicators ------------------------------------------------------------------------ */

enum { RANKS = 4, LONG = 300000 };

/* Every rank's pair with every other one: [low][high]. */
static pair meshed[RANKS][RANKS];

static void mesh_make(int size) {
  for (int low = 0; low < size; low++)
    for (int high = low + 1; high < size; high++) meshed[low][high] = pair_make(SHM);
}

/* Closes the sockets that are not this rank's: the parent closes all, as rank -1. */
static void mesh_close_others(int rank, int size) {
  for (int low = 0; low < size; low++) {
    for (int high = low + 1; high < size; high++) {
      if (rank != low) close(meshed[low][high].fd[0][0]);
      if (rank != high) close(meshed[low][high].fd[1][0]);
    }
  }
}

/* Opens, and puts links through shared memory in the place of those that there are. */
static ring_comm *mesh_open(int rank, int size, int *arrived) {
  ring_comm *comm = open_rank(rank, size);
  mesh_close_others(rank, size);
  ranks_barrier(arrived, size);
  ring_peers *peers = &comm->peers;
  while (peers->linked_count > 0) {
    ring_peer *peer = &peers->peer[peers->linked[--peers->linked_count]];
    peer->link->ops->close(peer->link);
  }
  for (int other = 0; other < size; other++) {
    if (other == rank) continue;
    const pair *of = rank < other ? &meshed[rank][other] : &meshed[other][rank];
    peers->peer[other].link = pair_link(of, rank < other ? 0 : 1);
    peers->linked[peers->linked_count++] = other;
  }
  return comm;
}

/* As run_ranks, but the parent may not keep the sockets open: it would hide the end of a rank. */
static void mesh_run(int size, rank_function function) {
  int *arrived = shared_alloc(64), failures = 0;
  mesh_make(size);
  fflush(NULL);
  for (int rank = 0; rank < size; rank++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) continue;
    alarm(120);
    function(rank, size, arrived);
    exit(0);
  }
  mesh_close_others(-1, size);
  for (int rank = 0, status; rank < size; rank++) {
    CHECK(wait(&status) > 0);
    failures += status == 0 ? 0 : 1;
  }
  CHECK_INT(failures, 0);
  for (int low = 0; low < size; low++)
    for (int high = low + 1; high < size; high++) pair_free(&meshed[low][high]);
  shared_free(arrived, 64);
}

static void check_all(const float *x, size_t count, float expected) {
  for (size_t i = 0; i < count; i++) CHECK(x[i] == expected);
}

static void call_everything(int rank, int size, void *arrived) {
  ring_comm *comm = mesh_open(rank, size, arrived);
  float *x = calloc(LONG, sizeof *x), *y = calloc((size_t)LONG * RANKS, sizeof *y);
  int sum = size * (size + 1) / 2;
  for (int round = 0; round < 20; round++) {
    for (size_t count = 1; count <= LONG; count *= 67) {
      for (size_t i = 0; i < count; i++) x[i] = (float)(rank + 1);
      CHECK_INT(ring_allreduce(comm, x, y, count, RING_FLOAT32, RING_SUM), RING_OK);
      check_all(y, count, (float)sum);
      CHECK_INT(ring_allgather(comm, x, y, count, RING_FLOAT32), RING_OK);
      for (int i = 0; i < size; i++) check_all(y + (size_t)i * count, count, (float)(i + 1));
      CHECK_INT(ring_broadcast(comm, x, y, count, RING_FLOAT32, round % size), RING_OK);
      check_all(y, count, (float)(round % size + 1));
    }
    CHECK_INT(ring_barrier(comm), RING_OK);
    if (round % size == rank) usleep(2000); /* the others sleep */
  }
  close_rank(comm);
  free(x);
  free(y);
}

static void test_everything(void) {
  for (int size = 2; size <= RANKS; size++) mesh_run(size, call_everything);
}

/* Ranks close at different times: who is late may find that the early ones have gone. */
static void close_late(int rank, int size, void *arrived) {
  ring_comm *comm = mesh_open(rank, size, arrived);
  usleep((useconds_t)(rank * 7 % 5) * 1000);
  close_rank(comm);
}

static void test_close(void) {
  for (int tries = 0; tries < 10; tries++) mesh_run(2 + tries % 3, close_late);
}

static void survive(ring_comm *comm, float *x, ring_status expected, int fault, const char *text) {
  ring_status status = RING_OK;
  while (status == RING_OK) status = ring_allreduce(comm, x, x, LONG, RING_FLOAT32, RING_MAX);
  if (status != expected) fprintf(stderr, "%s\n", ring_comm_error(comm)->message);
  CHECK_INT(status, expected);
  CHECK_INT(ring_comm_error(comm)->rank, fault);
  CHECK_CONTAINS(ring_comm_error(comm)->message, text);
  ring_comm_free(comm);
  free(x);
}

static void die_in_the_middle(int rank, int size, void *arrived) {
  ring_comm *comm = mesh_open(rank, size, arrived);
  float *x = calloc(LONG, sizeof *x);
  for (int i = 0; i < 3; i++)
    CHECK_INT(ring_allreduce(comm, x, x, LONG, RING_FLOAT32, RING_MAX), RING_OK);
  if (rank == 1) _exit(0); /* without a word, as a crash */
  survive(comm, x, RING_PEER_LOST, 1, "rank 1 (127.0.0.1) was lost during allreduce");
}

static void test_a_rank_that_dies(void) {
  for (int size = 2; size <= RANKS; size++) mesh_run(size, die_in_the_middle);
}

static void abort_in_the_middle(int rank, int size, void *arrived) {
  ring_comm *comm = mesh_open(rank, size, arrived);
  float *x = calloc(LONG, sizeof *x);
  for (int i = 0; i < 3; i++)
    CHECK_INT(ring_allreduce(comm, x, x, LONG, RING_FLOAT32, RING_MAX), RING_OK);
  if (rank == 1) ring_comm_abort(comm, "the loss is NaN");
  survive(comm, x, RING_ABORTED, 1, "the loss is NaN");
}

static void test_abort(void) {
  for (int size = 2; size <= RANKS; size++) mesh_run(size, abort_in_the_middle);
}

int main(void) {
  RUN(test_nonsense);
  RUN(test_everything);
  RUN(test_close);
  RUN(test_a_rank_that_dies);
  RUN(test_abort);
  return 0;
}
