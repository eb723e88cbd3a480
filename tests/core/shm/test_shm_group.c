/* SPDX-License-Identifier: Apache-2.0
 *
 * How a shm group forms and waits: which ranks form one, that nothing is left behind, that sleepers
 * are woken, and that all ranks report calls that differ with the name of the rank at fault.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/comm_state.h"
#include "base/platform.h"
#include "check.h"
#include "meetings.h"
#include "ranks.h"
#include "shm/attach.h"
#include "shm/sync.h"
#include "transport/socket.h"

static double seconds(void) {
  return (double)ring_platform_now() / 1e9;
}

/* ---- Forming ------------------------------------------------------------------------------ */

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
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
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

static void test_strangers_get_nothing(void) {
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

/* ---- Waiting ------------------------------------------------------------------------------ */

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
  CHECK(seconds() - begun < 4.5); /* each missed wake-up takes 0.1 s */
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

/* ---- Mismatches --------------------------------------------------------------------------- */

enum { LONG = 1500000 };

static float mismatch_x[3 * LONG], mismatch_y[3 * LONG];

static ring_status make_call(ring_comm *comm, int which) {
  static const size_t counts[] = {1, 1, 1}, others[] = {2, 0, 1};
  float *x = mismatch_x, *y = mismatch_y;
  ring_comm *child;
  ring_status status;
  switch (which) {
  case 0:
    return ring_allreduce(comm, x, y, 3, RING_FLOAT32, RING_SUM);
  case 1:
    return ring_allreduce(comm, x, y, 4, RING_FLOAT32, RING_SUM);
  case 2:
    return ring_allreduce(comm, x, y, 3, RING_INT32, RING_SUM);
  case 3:
    return ring_allreduce(comm, x, y, 3, RING_FLOAT32, RING_MAX);
  case 4:
    return ring_allreduce(comm, x, y, 100000, RING_FLOAT32, RING_SUM);
  case 5:
    return ring_broadcast(comm, x, x, 3, RING_FLOAT32, 0);
  case 6:
    return ring_broadcast(comm, x, x, 3, RING_FLOAT32, 1);
  case 7:
    return ring_broadcast(comm, x, x, 100000, RING_FLOAT32, 0);
  case 8:
    return ring_broadcast(comm, x, x, 100000, RING_FLOAT32, 1);
  case 9:
    return ring_reduce(comm, x, y, 3, RING_FLOAT32, RING_SUM, 0);
  case 10:
    return ring_reduce(comm, x, y, 3, RING_FLOAT32, RING_SUM, 1);
  case 11:
    return ring_barrier(comm);
  case 12:
    return ring_alltoallv(comm, x, counts, y, counts, RING_FLOAT32);
  case 13:
    return ring_recv(comm, x, 3, RING_FLOAT32, (ring_comm_rank(comm) + 1) % 3);
  case 14:
    status = ring_comm_split(comm, 0, 0, &child);
    if (status == RING_OK) ring_comm_free(child);
    return status;
  case 15:
    return ring_comm_close(comm);
  case 16:
    return ring_allgatherv(comm, x, y, counts, RING_FLOAT32);
  case 17:
    return ring_allgatherv(comm, x, y, others, RING_FLOAT32);
  case 18:
    return ring_gather(comm, x, y, 100000, RING_FLOAT32, 1);
  default:
    return ring_gather(comm, x, y, 3, RING_FLOAT32, 0);
  }
}

static void differ(int rank, int size, void *shared) {
  const int *pair = shared;
  ring_options options = rank_options(rank, size);
  options.call_timeout = 20;
  ring_comm *comm = open_with(&options);
  double begun = seconds();
  ring_status status = make_call(comm, pair[rank == pair[2]]);
  /* A rank that waits for no rank detects it in the next call. */
  for (int i = 0; i < 2 && status == RING_OK; i++) status = ring_barrier(comm);
  if (status != RING_MISMATCH || seconds() - begun > 3)
    fprintf(stderr, "rank %d: calls %d and, on rank %d, %d: %.1f s, %s: %s\n", rank, pair[0],
            pair[2], pair[1], seconds() - begun, ring_status_name(status),
            ring_comm_error(comm)->message);
  CHECK_INT(status, RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "the ranks ");
  CHECK(seconds() - begun < 3);
  ring_comm_free(comm);
}

static void test_mismatches(void) {
  static const int pairs[][3] = {
      {0, 1, 1},  {0, 2, 2},  {0, 3, 0},   {0, 4, 1},  {4, 0, 2},   {0, 11, 0},  {5, 6, 1},
      {5, 6, 0},  {5, 7, 0},  {7, 5, 0},   {7, 8, 1},  {8, 6, 1},   {9, 10, 1},  {9, 10, 0},
      {9, 5, 0},  {5, 9, 0},  {0, 12, 1},  {12, 0, 1}, {5, 12, 1},  {5, 12, 0},  {12, 5, 0},
      {0, 13, 1}, {5, 13, 1}, {4, 13, 2},  {0, 14, 1}, {0, 15, 0},  {0, 15, 2},  {5, 15, 1},
      {9, 11, 0}, {11, 9, 2}, {16, 17, 1}, {18, 8, 0}, {18, 19, 1}, {19, 18, 1}, {19, 0, 0}};
  int *pair = shared_alloc(64);
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    memcpy(pair, pairs[i], sizeof pairs[i]);
    run_ranks(3, differ, pair);
  }
  shared_free(pair, 64);
}

int main(void) {
  RUN(test_all_ranks_of_a_host_share);
  RUN(test_one_rank_refuses);
  RUN(test_two_hosts);
  RUN(test_ranks_that_are_threads);
  RUN(test_at_most_64_ranks_share);
  RUN(test_strangers_get_nothing);
  RUN(test_sleepers_are_woken);
  RUN(test_what_is_shared_is_counted);
  RUN(test_slots_wait_for_slow_readers);
  RUN(test_ranks_run_ahead);
  RUN(test_long_after_many_short_calls);
  RUN(test_mismatches);
  return 0;
}
