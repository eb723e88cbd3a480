/* SPDX-License-Identifier: Apache-2.0
 *
 * How a shm group forms: which ranks form one, that outsiders get nothing, and that nothing is left behind.
 */
#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/comm_state.h"
#include "check.h"
#include "leaks.h"
#include "openings.h"
#include "ranks.h"
#include "shm/attach.h"
#include "transport/socket.h"

static void look_around(int rank, int size, void *shared) {
  (void)shared;
  int descriptors = count_descriptors();
  ring_comm *comm = open_rank(rank, size);
  CHECK(comm->shm.formed && !comm->shm.fenced);
  CHECK_INT(comm->shm.size, size);
  CHECK_INT(comm->shm.index, rank);
  CHECK_INT(comm->peers.shm_acceptor.listener, -1);
  CHECK(arena_is_mapped());
  check_ring(comm);
  close_rank(comm);
  CHECK(!arena_is_mapped());
  CHECK_INT(count_descriptors(), descriptors);
}

static int count_in_dev_shm(void) {
  int count = 0;
  DIR *directory = opendir("/dev/shm");
  CHECK(directory != NULL);
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
    count += strstr(entry->d_name, "sparkring") != NULL;
  closedir(directory);
  return count;
}

static void test_all_ranks_of_a_host_share(void) {
  for (int size = 2; size <= 6; size += 2) run_ranks(size, look_around, NULL);
  CHECK_INT(count_in_dev_shm(), 0);
}

/* One rank that does not want shared memory prevents the group. */
static void refuse_to_share(int rank, int size, void *shared) {
  int descriptors = count_descriptors();
  ring_options options = rank_options(rank, size);
  void *memory;
  if (rank == *(int *)shared) options.shared_memory = RING_OFF;
  ring_comm *comm = open_with(&options);
  CHECK(!comm->shm.formed && comm->shm.arena == NULL && !arena_is_mapped());
  check_ring(comm);
  CHECK_INT(strcmp(ring_comm_link(comm, (rank + 1) % size), "tcp"), 0);
  CHECK_INT(ring_alloc(comm, 100, &memory), RING_OK);
  CHECK((uintptr_t)memory % 64 == 0);
  memset(memory, 1, 100);
  ring_free(memory);
  close_rank(comm);
  CHECK_INT(count_descriptors(), descriptors);
}

static void test_one_rank_refuses(void) {
  int *refuser = shared_alloc(64);
  for (*refuser = 0; *refuser < 3; ++*refuser) run_ranks(3, refuse_to_share, refuser);
  shared_free(refuser, 64);
}

/* 127.0.0.1 and 127.0.0.2 are two hosts: each has a shm group, and calls of all ranks go over
 * links. */
static void shm_on_two_hosts(int rank, int size, void *shared) {
  (void)shared;
  static const char *hosts[] = {"127.0.0.1:1", "127.0.0.2:1", "127.0.0.1:2", "127.0.0.2:2"};
  ring_options options = rank_options(rank, size);
  ring_comm *comm, *child;
  options.addresses = hosts;
  comm = open_with(&options);
  CHECK(comm->shm.formed);
  CHECK_INT(comm->shm.size, 2);
  CHECK_INT(comm->shm.ranks[1 - comm->shm.index], (rank + 2) % 4);
  check_ring(comm);
  float *x = calloc(300000, sizeof *x);
  for (int i = 0; i < 300000; i++) x[i] = (float)(rank + i % 5);
  CHECK_INT(ring_allreduce(comm, x, x, 300000, RING_FLOAT32, RING_SUM), RING_OK);
  for (int i = 0; i < 300000; i++) CHECK_INT(x[i], 6 + 4 * (i % 5));
  CHECK_INT(ring_alltoall(comm, x, x + 4, 1, RING_FLOAT32), RING_OK);
  CHECK_INT(strcmp(ring_comm_link(comm, (rank + 2) % 4), "shm"), 0);
  CHECK_INT(ring_comm_split(comm, rank % 2, 0, &child), RING_OK);
  CHECK(child->shm.formed && child->shm.size == child->peers.size);
  check_ring(child);
  close_rank(child);
  close_rank(comm);
  free(x);
}

static void test_two_hosts(void) {
  run_ranks(4, shm_on_two_hosts, NULL);
}

typedef struct thread_rank {
  ring_options options;
  double sum;
} thread_rank;

/* A rank that is a thread. */
static void *run_thread(void *arg) {
  enum { COUNT = 200000 };
  thread_rank *thread = arg;
  ring_comm *comm;
  ring_error error;
  if (ring_comm_open(&thread->options, &comm, &error) != RING_OK)
    fprintf(stderr, "%s\n", error.message);
  CHECK(comm != NULL && comm->shm.formed && comm->shm.size == thread->options.size);
  double *x = calloc(COUNT, sizeof *x), *y;
  CHECK_INT(ring_alloc(comm, COUNT * sizeof *y, (void **)&y), RING_OK);
  for (int i = 0; i < COUNT; i++) x[i] = thread->options.rank + i;
  for (int step = 0; step < 20; step++) {
    check_ring(comm);
    CHECK_INT(ring_allreduce(comm, x, y, COUNT, RING_FLOAT64, RING_SUM), RING_OK);
    CHECK_INT(ring_broadcast(comm, x, x, COUNT / 2, RING_FLOAT64, step % thread->options.size),
              RING_OK);
  }
  thread->sum = y[COUNT - 1];
  close_rank(comm);
  ring_free(y);
  free(x);
  return NULL;
}

static void run_threads(int rank, int size, void *shared) {
  enum { THREADS = 3 };
  (void)rank, (void)size, (void)shared;
  pthread_t threads[THREADS];
  thread_rank ranks[THREADS];
  for (int i = 0; i < THREADS; i++) ranks[i].options = rank_options(i, THREADS);
  for (int i = 0; i < THREADS; i++)
    CHECK_INT(pthread_create(&threads[i], NULL, run_thread, &ranks[i]), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) CHECK_INT(ranks[i].sum, 3 * 199999 + 3);
  CHECK(!arena_is_mapped());
}

static void test_ranks_that_are_threads(void) {
  run_ranks(1, run_threads, NULL);
}

/* Peers of one host after the rendezvous, as ring_shm_invite finds them. */
static void place_peers(ring_peers *peers, int rank, int size, uint8_t key) {
  CHECK_INT(ring_peers_init(peers, rank, size), RING_OK);
  for (int i = 0; i < size; i++) CHECK_INT(ring_peers_place(peers, i, "127.0.0.1", 1), RING_OK);
  peers->epoch = (uint64_t)getpid(); /* which makes the name of the socket unique among tests */
  memset(&peers->keys.vault->job, key, sizeof peers->keys.vault->job);
}

/* Too many ranks for the bits of the control block. */
static void test_at_most_64_ranks_share(void) {
  for (int size = 63; size <= 65; size++) {
    ring_peers peers;
    ring_shm shm = {0};
    place_peers(&peers, 0, size, 1);
    ring_shm_invite(&shm, &peers);
    CHECK_INT(shm.arena != NULL, size <= 64);
    CHECK_INT(peers.shm_acceptor.listener >= 0, size <= 64);
    ring_peers_fini(&peers);
    ring_shm_fini(&shm);
  }
  CHECK(!arena_is_mapped());
}

static void serve_annex(ring_peers *peers) {
  ring_poll_set poll_set = {0};
  for (int turn = 0; turn < 20; turn++) {
    ring_poll_set_reset(&poll_set);
    ring_peers_watch(peers, &poll_set);
    ring_poll_set_sleep(&poll_set, 2);
    ring_peers_serve(peers, &poll_set, NULL);
  }
  ring_poll_set_fini(&poll_set);
}

/* The name of the socket on which rank 0 listens. */
static void read_name(const ring_peers *peers, char *name) {
  char line[512], inode[32];
  struct stat status;
  FILE *sockets = fopen("/proc/net/unix", "r");
  CHECK(sockets != NULL);
  CHECK_INT(fstat(peers->shm_acceptor.listener, &status), 0);
  snprintf(inode, sizeof inode, " %llu ", (unsigned long long)status.st_ino);
  name[0] = '\0';
  while (fgets(line, sizeof line, sockets) != NULL)
    if (strstr(line, inode) != NULL && strchr(line, '@') != NULL)
      sscanf(strchr(line, '@') + 1, "%63s", name);
  fclose(sockets);
  CHECK_CONTAINS(name, "sparkring-");
}

static ring_claim claim_of(ring_purpose purpose, int rank, uint64_t epoch) {
  int connections = purpose == RING_PURPOSE_LINK ? 1 : 0;
  return (ring_claim){purpose, rank, 3, epoch, 0, connections, false};
}

/* A connection that sends `claim` with `key`; true if it gets a descriptor. */
static bool is_given_memory(ring_peers *host, const char *name, uint8_t key, ring_claim claim) {
  char bytes[64];
  ring_handshake handshake;
  ring_vault vault;
  const ring_keys keys = {.rank = claim.rank, .size = 3, .vault = &vault};
  int fd = ring_socket_connect_local(name), got;
  CHECK(fd >= 0);
  memset(&vault, key, sizeof vault);
  CHECK(ring_handshake_connect(&handshake, fd, &keys, &claim, 0));
  for (int turn = 0; turn < 10; turn++) {
    ring_handshake_advance(&handshake);
    if (turn < 9) serve_annex(host);
    if (handshake.state != RING_HANDSHAKE_READING && handshake.state != RING_HANDSHAKE_WRITING)
      break;
  }
  serve_annex(host);
  got = ring_socket_receive_fd(fd, bytes, 16);
  ring_socket_close(&fd);
  if (got >= 0) close(got);
  return got >= 0;
}

static void test_outsiders_get_nothing(void) {
  ring_peers peers;
  ring_shm shm = {0};
  char name[64];
  int descriptors = count_descriptors();
  place_peers(&peers, 0, 3, 1);
  ring_shm_invite(&shm, &peers);
  CHECK(shm.arena != NULL);
  read_name(&peers, name);
  CHECK(is_given_memory(&peers, name, 1, claim_of(RING_PURPOSE_SHM, 1, peers.epoch)));
  CHECK(!is_given_memory(&peers, name, 2, claim_of(RING_PURPOSE_SHM, 1, peers.epoch)));
  CHECK(!is_given_memory(&peers, name, 1, claim_of(RING_PURPOSE_SHM, 1, peers.epoch + 1)));
  CHECK(!is_given_memory(&peers, name, 1, claim_of(RING_PURPOSE_SHM, 0, peers.epoch)));
  CHECK(!is_given_memory(&peers, name, 1, claim_of(RING_PURPOSE_LINK, 1, peers.epoch)));
  int silent = ring_socket_connect_local(name), noisy = ring_socket_connect_local(name), got;
  char bytes[16];
  CHECK(silent >= 0 && noisy >= 0);
  CHECK(write(noisy, "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n", 54) ==
        54);
  serve_annex(&peers);
  while ((got = ring_socket_receive_fd(noisy, bytes, sizeof bytes)) >= 0) CHECK(got < 0);
  CHECK(ring_socket_receive_fd(silent, bytes, sizeof bytes) < 0);
  ring_socket_close(&silent);
  ring_socket_close(&noisy);
  ring_peers_fini(&peers);
  ring_shm_fini(&shm);
  CHECK_INT(count_descriptors(), descriptors);
  CHECK(!arena_is_mapped());
}

int main(void) {
  RUN(test_all_ranks_of_a_host_share);
  RUN(test_one_rank_refuses);
  RUN(test_two_hosts);
  RUN(test_ranks_that_are_threads);
  RUN(test_at_most_64_ranks_share);
  RUN(test_outsiders_get_nothing);
  return 0;
}
