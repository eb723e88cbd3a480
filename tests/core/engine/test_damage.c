/* SPDX-License-Identifier: Apache-2.0
 *
 * A network that changes bits: the linker redirects the core's receives to this file, which changes
 * one received bit. Wherever the bit is, no rank gets a wrong result, and all ranks get an error.
 */
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "check.h"
#include "ranks.h"

enum { RANKS = 3, COUNT = 100000, RUNS = 60 };

/* ---- The network -------------------------------------------------------------------------- */

static int64_t left = -1; /* bytes that this process receives before the changed byte */

static void damage(uint8_t *bytes, size_t length) {
  if (left >= 0 && left < (int64_t)length) bytes[left] ^= 4;
  left -= (int64_t)length;
}

static ssize_t damage_pieces(const struct iovec *pieces, size_t count, ssize_t got) {
  size_t rest = got > 0 ? (size_t)got : 0;
  for (size_t i = 0; i < count && rest > 0 && left >= 0; i++) {
    size_t part = pieces[i].iov_len < rest ? pieces[i].iov_len : rest;
    damage(pieces[i].iov_base, part);
    rest -= part;
  }
  return got;
}

ssize_t __real_recv(int fd, void *bytes, size_t length, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t length, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t length, int flags) {
  ssize_t got = __real_recv(fd, bytes, length, flags);
  struct iovec piece = {bytes, length};
  return flags & MSG_PEEK ? got : damage_pieces(&piece, 1, got);
}

ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags) {
  ssize_t got = __real_recvmsg(fd, message, flags);
  return damage_pieces(message->msg_iov, message->msg_iovlen, got);
}

/* ---- Ranks -------------------------------------------------------------------------------- */

typedef struct weather {
  int64_t at; /* the changed byte, of all that rank 1 receives; -1: none */
  ring_choice encryption;
  int failed;  /* ranks that got an error */
  int named;   /* ranks whose error names the cause */
  int arrived; /* ranks that have opened */
} weather;

static void reduce_and_check(ring_comm *comm, float *x, size_t count) {
  ring_status status = RING_OK;
  for (int turn = 0; turn < 4 && status == RING_OK; turn++) {
    for (size_t i = 0; i < count; i++) x[i] = (float)(i % 1000) + (float)ring_comm_rank(comm);
    status = ring_allreduce(comm, x, x, count, RING_FLOAT32, RING_SUM);
    for (size_t i = 0; i < count && status == RING_OK; i++)
      CHECK(x[i] == (float)RANKS * (float)(i % 1000) + RANKS * (RANKS - 1) / 2);
    if (status == RING_OK) status = ring_barrier(comm);
  }
}

static void work(int rank, int size, void *shared) {
  weather *of = shared;
  ring_options options = rank_options(rank, size);
  float *x = malloc(COUNT * sizeof *x);
  options.shared_memory = RING_OFF;
  options.encryption = of->encryption;
  options.algorithms = "allreduce:ring:64KiB-";
  ring_comm *comm = open_with(&options);
  ranks_barrier(&of->arrived, size);
  if (rank == 1) left = of->at;
  reduce_and_check(comm, x, COUNT);
  reduce_and_check(comm, x, 100);
  ring_status status = ring_comm_close(comm);
  const ring_error *error = ring_comm_error(comm);
  bool named = strstr(error->message, "arrived damaged") != NULL && error->status == status;
  if (status != RING_OK) __sync_fetch_and_add(&of->failed, 1);
  if (named) __sync_fetch_and_add(&of->named, 1);
  ring_comm_free(comm);
  free(x);
}

static weather run_in(int64_t at, ring_choice encryption) {
  weather *shared = shared_alloc(sizeof *shared);
  *shared = (weather){.at = at, .encryption = encryption};
  run_ranks(RANKS, work, shared);
  weather seen = *shared;
  shared_free(shared, sizeof *shared);
  return seen;
}

static void test_a_good_network(void) {
  CHECK_INT(run_in(-1, RING_OFF).failed, 0);
}

/* Changes bits of headers and payloads, of early and late frames. */
static void test_a_changed_bit(void) {
  uint32_t random = 2463534242u;
  for (int i = 0; i < RUNS; i++) {
    random = random * 1664525u + 1013904223u;
    int64_t at = i < 40 ? i : (int64_t)(random >> 8) % (COUNT * 8);
    weather seen = run_in(at, RING_OFF);
    CHECK_INT(seen.failed, RANKS);
    CHECK(seen.named > 0);
  }
}

static void test_a_changed_bit_of_an_encrypted_link(void) {
  for (int64_t at = 0; at < 100000; at += 9973) CHECK_INT(run_in(at, RING_ON).failed, RANKS);
}

int main(void) {
  RUN(test_a_good_network);
  RUN(test_a_changed_bit);
  RUN(test_a_changed_bit_of_an_encrypted_link);
  return 0;
}
