/* SPDX-License-Identifier: Apache-2.0
 *
 * Outsiders use up the descriptors of a rank while it trains: more outsiders than it has descriptors
 * connect to its listener, and stay. Collectives go on, links that open late do open, a waiting rank
 * does not spin, and the rank accepts again after the outsiders have gone.
 */
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/comm_state.h"
#include "base/platform.h"
#include "check.h"
#include "leaks.h"
#include "ranks.h"
#include "transport/socket.h"

enum { SIZE = 9, OUTSIDERS = 150, SPARE = 10, CALLS = 50 };

typedef struct siege {
  int besieged; /* the rank */
  int opened, arrived, stage;
  uint16_t port;
  double processor; /* seconds that the rank used while it waited for one */
  int late;         /* links that opened under siege */
  int refused;      /* outsiders that the rank has sent away */
} siege;

static void reach(siege *s, int stage) {
  __atomic_store_n(&s->stage, stage, __ATOMIC_RELEASE);
}

static void await(const siege *s, int stage) {
  for (int i = 0; __atomic_load_n(&s->stage, __ATOMIC_ACQUIRE) < stage; i++) {
    CHECK(i < 20000);
    usleep(1000);
  }
}

/* Leaves this process `spare` descriptors more than it has. */
static void ration(int spare) {
  struct rlimit limit;
  CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = (rlim_t)count_descriptors() + (rlim_t)spare;
  CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static double processor_time(void) {
  struct rusage use;
  CHECK_INT(getrusage(RUSAGE_SELF, &use), 0);
  return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

/* Connects, every other one with a word, and stays. */
static void besiege(uint16_t port, int *sockets) {
  ring_resolved resolved;
  CHECK_INT(ring_socket_resolve("127.0.0.1", port, &resolved), 0);
  for (int i = 0; i < OUTSIDERS; i++) {
    sockets[i] = ring_socket_connect(&resolved, 0);
    CHECK(sockets[i] >= 0);
    struct pollfd entry = {.fd = sockets[i], .events = POLLOUT};
    bool connected = poll(&entry, 1, 20) == 1; /* the others wait for a place in the queue */
    if (connected && i % 2 == 0) send(sockets[i], "GET / HTTP/1.1\r\n", 16, MSG_NOSIGNAL);
  }
}

static void be_outsiders(siege *s) {
  int sockets[OUTSIDERS];
  await(s, 1);
  besiege(s->port, sockets);
  reach(s, 2);
  await(s, 3);
  for (int i = 0; i < OUTSIDERS; i++) {
    struct pollfd entry = {.fd = sockets[i], .events = POLLIN};
    s->refused += poll(&entry, 1, 0) == 1;
    ring_socket_close(&sockets[i]);
  }
  reach(s, 4);
}

static void sum(ring_comm *comm, int calls) {
  float x[64], y[64];
  for (int i = 0; i < 64; i++) x[i] = (float)comm->peers.rank;
  for (int i = 0; i < calls; i++) {
    ring_status status = ring_allreduce(comm, x, y, 64, RING_FLOAT32, RING_SUM);
    if (status != RING_OK) fprintf(stderr, "%s\n", ring_comm_error(comm)->message);
    CHECK_INT(status, RING_OK);
    CHECK(y[63] == SIZE * (SIZE - 1) / 2);
  }
}

/* A message from everybody to the besieged rank, which needs all its links: of two ranks the higher one
 * connects to. The number of those that were not open yet. */
static int receive_all(ring_comm *comm, int besieged) {
  int rank = comm->peers.rank, missing = 0;
  for (int i = 0; i < SIZE; i++) {
    float x = 1, y = 0;
    ring_status status = RING_OK;
    if (i == besieged || (rank != besieged && rank != i)) continue;
    if (rank == besieged) {
      missing += ring_comm_link(comm, i)[0] == '\0';
      status = ring_recv(comm, &y, 1, RING_FLOAT32, i);
    } else {
      status = ring_send(comm, &x, 1, RING_FLOAT32, besieged);
    }
    if (status != RING_OK) fprintf(stderr, "%s\n", ring_comm_error(comm)->message);
    CHECK_INT(status, RING_OK);
    CHECK(rank != besieged || y == 1);
  }
  return missing;
}

static void be_a_rank(siege *s, int rank) {
  ring_options options = rank_options(rank, SIZE);
  ring_comm *comm;
  ring_error error;
  options.shared_memory = RING_OFF;
  options.call_timeout = 30;
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_OK);
  sum(comm, 1);
  ranks_barrier(&s->opened, SIZE);
  if (rank == s->besieged) {
    s->port = comm->peers.peer[rank].port;
    ration(SPARE);
    reach(s, 1);
  }
  if (rank != s->besieged) await(s, 2);
  double before = processor_time();
  if (rank != s->besieged) usleep(1000000); /* it waits for them, and for outsiders */
  sum(comm, 1);
  if (rank == s->besieged) s->processor = processor_time() - before;
  sum(comm, CALLS);
  int late = receive_all(comm, s->besieged);
  if (rank == s->besieged) s->late = late;
  sum(comm, CALLS);
  ranks_barrier(&s->arrived, SIZE);
  if (rank == s->besieged) reach(s, 3);
  await(s, 4);
  sum(comm, CALLS);
  close_rank(comm);
}

static void run_siege(int rank, int size, void *shared) {
  (void)size;
  if (rank == SIZE)
    be_outsiders(shared);
  else
    be_a_rank(shared, rank);
}

static int lay_siege(int besieged) {
  siege *s = shared_alloc(sizeof *s);
  s->besieged = besieged;
  run_ranks(SIZE + 1, run_siege, s);
  printf("rank %d, %d outsiders for %d descriptors, %d sent away: %d late links, %.3f s of "
         "processor\n",
         besieged, OUTSIDERS, SPARE, s->refused, s->late, s->processor);
  CHECK(s->refused > 0);
  CHECK(s->processor < 0.5);
  int late = s->late;
  shared_free(s, sizeof *s);
  return late;
}

/* One that all others connect to, one that connects to all others, and one between. */
static void test_sieges(void) {
  CHECK(lay_siege(0) + lay_siege(SIZE - 1) + lay_siege(SIZE / 2) > 2);
}

int main(void) {
  RUN(test_sieges);
  return 0;
}
