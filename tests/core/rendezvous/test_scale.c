/* SPDX-License-Identifier: Apache-2.0
 *
 * Many ranks: threads of many processes form a communicator, run a ring, doubling and a tree, and
 * close. The test counts the bytes that each rank moves during the rendezvous, its links, and the
 * descriptors left. A rank is a thread, so its bytes are counted where its thread calls the system
 * (--wrap in CMakeLists.txt).
 */
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/platform.h"
#include "check.h"
#include "leaks.h"
#include "ranks.h"
#include "shm/control_block.h"

#define SCALE_PROCESSES 32
#define SCALE_MAX (SPARKRING_SANITIZED ? 512 : 1024) /* sanitizers are slow */
#define SCALE_DESCRIPTORS                                                                          \
  4096 /* of a process: 32 ranks with 20 links each, and 1,023 connections */

/* The bytes that a rank sends until it has joined, and receives after that, whatever the size. */
#define SCALE_RANK_BYTES 320

typedef struct scale_results {
  int size;
  uint64_t begun, opened[SCALE_MAX], moved[SCALE_MAX];
  int links[SCALE_MAX];
} scale_results;

typedef struct scale_rank {
  ring_options options;
  scale_results *results;
} scale_rank;

/* ---- Counting ----------------------------------------------------------------------------- */

static _Thread_local uint64_t moved;

static ssize_t count(ssize_t bytes) {
  if (bytes > 0) moved += (uint64_t)bytes;
  return bytes;
}

ssize_t __real_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __real_recv(int fd, void *bytes, size_t length, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);

ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags) {
  return count(__real_send(fd, bytes, length, flags));
}

ssize_t __wrap_recv(int fd, void *bytes, size_t length, int flags) {
  return count(__real_recv(fd, bytes, length, flags));
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
  return count(__real_sendmsg(fd, message, flags));
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags) {
  return count(__real_recvmsg(fd, message, flags));
}

static int count_links(const ring_comm *comm) {
  int links = 0;
  for (int peer = 0; peer < ring_comm_size(comm); peer++) {
    const char *link = ring_comm_link(comm, peer);
    links += link[0] != '\0' && strcmp(link, "self") != 0;
  }
  return links;
}

/* ---- Many ranks --------------------------------------------------------------------------- */

/* A small allreduce is doubling, a broadcast is a tree, and messages go round as in a ring. */
static void run_programs(ring_comm *comm) {
  const int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  int32_t from_0 = rank == 0 ? 42 : 0, sum = 1, mine = rank, lower = -1;
  CHECK_INT(ring_broadcast(comm, &from_0, &from_0, 1, RING_INT32, 0), RING_OK);
  CHECK_INT(from_0, 42);
  CHECK_INT(ring_allreduce(comm, &sum, &sum, 1, RING_INT32, RING_SUM), RING_OK);
  CHECK_INT(sum, size);
  CHECK_INT(ring_send(comm, &mine, 1, RING_INT32, (rank + 1) % size), RING_OK);
  CHECK_INT(ring_recv(comm, &lower, 1, RING_INT32, (rank + size - 1) % size), RING_OK);
  CHECK_INT(lower, (rank + size - 1) % size);
}

static void *be_one_of_many(void *arg) {
  const scale_rank *self = arg;
  const int rank = self->options.rank;
  scale_results *results = self->results;
  ring_comm *comm;
  ring_error error;
  if (ring_comm_open(&self->options, &comm, &error) != RING_OK) {
    fprintf(stderr, "rank %d: %s\n", rank, error.message);
    exit(1);
  }
  results->opened[rank] = ring_platform_now();
  results->moved[rank] = moved;
  CHECK_INT(ring_comm_local_rank(comm), rank);
  CHECK_INT(ring_comm_local_size(comm), results->size);
  CHECK(strcmp(ring_comm_host(comm, results->size - 1), "127.0.0.1") == 0);
  run_programs(comm);
  results->links[rank] = count_links(comm);
  close_rank(comm);
  return NULL;
}

static void run_threads(int process, int processes, void *shared) {
  scale_results *results = shared;
  const int each = results->size / processes;
  pthread_t threads[SCALE_MAX / SCALE_PROCESSES];
  scale_rank ranks[SCALE_MAX / SCALE_PROCESSES];
  int before = count_descriptors();
  for (int i = 0; i < each; i++) {
    ranks[i] = (scale_rank){rank_options(0, 1), results};
    ranks[i].options.rank = process * each + i;
    ranks[i].options.size = results->size;
    ranks[i].options.root_address = "127.0.0.1";
    ranks[i].options.addresses = NULL;
    ranks[i].options.address_count = 0;
  }
  for (int i = 0; i < each; i++)
    CHECK_INT(pthread_create(&threads[i], NULL, be_one_of_many, &ranks[i]), 0);
  for (int i = 0; i < each; i++) CHECK_INT(pthread_join(threads[i], NULL), 0);
  CHECK_INT(count_descriptors(), before);
}

/* Bytes through rank 0 grow at most as size * log2(size), of which each place takes 2 for each of its
 * children; links, with a handshake and a barrier on each, grow as log2(size). Where all share the
 * memory of their host, rank 0 hands it to each after another handshake, and each sends it to all. */
static void check_many(int size) {
  int rounds = 0, most = 0;
  uint64_t last = 0;
  scale_results *results = shared_alloc(sizeof *results);
  while (1 << rounds < size) rounds++;
  results->size = size;
  results->begun = ring_platform_now();
  run_ranks(SCALE_PROCESSES, run_threads, results);
  for (int rank = 0; rank < size; rank++) {
    if (results->links[rank] > most) most = results->links[rank];
    if (results->opened[rank] > last) last = results->opened[rank];
    uint64_t twice = size <= RING_SHM_RANKS ? 2 : 1;
    uint64_t own = twice * (uint64_t)rounds * (2 * (uint64_t)size + 2 * SCALE_RANK_BYTES);
    uint64_t root = twice * (uint64_t)size * SCALE_RANK_BYTES;
    CHECK(results->moved[rank] > SCALE_RANK_BYTES);
    CHECK(results->moved[rank] <= (rank == 0 ? root : 1024) + own);
  }
  printf("  %d ranks opened in %.2f s; %d links at most; %llu bytes through rank 0\n", size,
         (double)(last - results->begun) / 1e9, most, (unsigned long long)results->moved[0]);
  CHECK(results->moved[0] > (uint64_t)size * SCALE_RANK_BYTES / 2);
  CHECK(most <= 2 * rounds);
  shared_free(results, sizeof *results);
}

static void test_some_ranks(void) {
  check_many(64);
}

static void test_most_ranks(void) {
  check_many(SCALE_MAX);
}

int main(void) {
  struct rlimit limit;
  CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur < SCALE_DESCRIPTORS) limit.rlim_cur = SCALE_DESCRIPTORS;
  CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
  RUN(test_some_ranks);
  RUN(test_most_ranks);
  return 0;
}
