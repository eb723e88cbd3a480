/* SPDX-License-Identifier: Apache-2.0
 *
 * Links of several connections: how many each link has, what they carry, ranks that disagree, and
 * members of the job that break the rules for opening them. test_link.c checks the promises of every
 * link for them, too.
 */
#include <unistd.h>

#include "check.h"
#include "leaks.h"
#include "peers/connector.h"
#include "ranks.h"
#include "rendezvous/rendezvous.h"
#include "transport/socket.h"
#include "wire.h"

enum { CONNECTIONS = 3, COUNT = 300000 };

/* ---- Options ------------------------------------------------------------------------------ */

static void refuse(int connections, const char *text) {
  ring_options options = rank_options(0, 1);
  ring_comm *comm;
  ring_error error;
  options.connections = connections;
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_INVALID);
  CHECK_CONTAINS(error.message, text);
  CHECK(comm == NULL);
}

static void test_numbers_that_cannot_be(void) {
  refuse(-1, "connections is -1: it must be from 1 to 16");
  refuse(17, "connections is 17: it must be from 1 to 16");
  CHECK_INT(setenv("SPARKRING_CONNECTIONS", "many", 1), 0);
  refuse(0, "SPARKRING_CONNECTIONS is \"many\", which is not a whole number");
  CHECK_INT(setenv("SPARKRING_CONNECTIONS", "99", 1), 0);
  refuse(0, "connections is 99: it must be from 1 to 16");
  CHECK_INT(unsetenv("SPARKRING_CONNECTIONS"), 0);
}

/* ---- Links -------------------------------------------------------------------------------- */

typedef struct expected {
  int connections;
  ring_choice shared_memory;
  const char *link;
  ring_counters counters[4];
} expected;

static void check_sum(ring_comm *comm, float *x, size_t count) {
  int size = ring_comm_size(comm);
  for (size_t i = 0; i < count; i++) x[i] = (float)(i % 1000) + (float)ring_comm_rank(comm);
  CHECK_INT(ring_allreduce(comm, x, x, count, RING_FLOAT32, RING_SUM), RING_OK);
  for (size_t i = 0; i < count; i++)
    CHECK(x[i] == (float)size * (float)(i % 1000) + (float)(size * (size - 1) / 2));
}

static void use_links(int rank, int size, void *shared) {
  expected *of = shared;
  ring_options options = rank_options(rank, size);
  options.connections = of->connections;
  options.shared_memory = of->shared_memory;
  options.algorithms = "allreduce:ring";
  ring_comm *comm, *half;
  float *x = malloc(COUNT * sizeof *x);
  comm = open_with(&options);
  CHECK_INT(ring_comm_counters(comm, -1, &of->counters[rank]), RING_OK);
  for (int turn = 0; turn < 5; turn++) {
    check_sum(comm, x, COUNT);
    check_sum(comm, x, 7);
  }
  CHECK_INT(strcmp(ring_comm_link(comm, (rank + 1) % size), of->link), 0);
  CHECK_INT(ring_comm_counters(comm, -1, &of->counters[rank]), RING_OK);
  CHECK_INT(ring_comm_split(comm, rank % 2, 0, &half), RING_OK);
  check_sum(half, x, COUNT);
  CHECK_INT(strcmp(ring_comm_link(half, 1 - rank / 2), of->link), 0);
  close_rank(half);
  close_rank(comm);
  free(x);
}

/* What a call moves is the same, whatever it moves over. */
static void test_links(void) {
  expected *one = shared_alloc(2 * sizeof *one), *several = one + 1;
  *one = (expected){.connections = 0, .shared_memory = RING_OFF, .link = "tcp"};
  run_ranks(4, use_links, one);
  *several = (expected){.connections = CONNECTIONS, .shared_memory = RING_OFF, .link = "tcp x3"};
  run_ranks(4, use_links, several);
  for (int rank = 0; rank < 4; rank++) {
    const ring_counters *a = &one->counters[rank], *b = &several->counters[rank];
    CHECK(a->bytes_sent > 0 && a->bytes_sent == b->bytes_sent);
    CHECK(a->bytes_received == b->bytes_received);
    CHECK(a->messages_sent == b->messages_sent && a->messages_received == b->messages_received);
  }
  shared_free(one, 2 * sizeof *one);
}

static void test_links_through_shared_memory(void) {
  RUN_RANKS(4, use_links,
            (expected){.connections = CONNECTIONS, .shared_memory = RING_DEFAULT, .link = "shm"});
}

static void disagree(int rank, int size, void *shared) {
  ring_options options = rank_options(rank, size);
  ring_comm *comm;
  ring_error error;
  (void)shared;
  options.connections = rank == 1 ? CONNECTIONS - 1 : CONNECTIONS;
  options.shared_memory = RING_OFF;
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_MISMATCH);
  CHECK_CONTAINS(error.message, "the same connections");
}

static void test_ranks_that_disagree(void) {
  run_ranks(3, disagree, NULL);
}

/* ---- At the door -------------------------------------------------------------------------- */

/* Rank 0 of 2, which listens. */
static int begin_host(ring_peers *host) {
  CHECK_INT(ring_peers_init(host, 0, 2), RING_OK);
  host->epoch = 7;
  memset(&host->keys.vault->job, 1, sizeof host->keys.vault->job);
  int listener = ring_socket_listen("127.0.0.1", 0);
  int port = ring_socket_port(listener);
  CHECK(listener >= 0 && port > 0);
  CHECK_INT(ring_peers_listen(host, listener), RING_OK);
  return port;
}

/* Rank 1 comes with a connection. The connection, which has been judged. */
static int bring_lane(ring_peers *host, int port, int connection, int connections,
                      ring_answer answer) {
  ring_claim claim = {RING_PURPOSE_LINK, 1, 2, host->epoch, connection, connections, false};
  ring_resolved resolved;
  ring_handshake handshake;
  ring_poll_set poll_set = {0};
  const ring_keys self = {.rank = 1, .size = 2, .vault = host->keys.vault};
  CHECK_INT(ring_socket_resolve("127.0.0.1", (uint16_t)port, &resolved), 0);
  int fd = ring_socket_connect(&resolved, 0);
  CHECK(fd >= 0 && ring_handshake_connect(&handshake, fd, &self, &claim, 0));
  for (int turn = 0; turn < 1000; turn++) {
    ring_handshake_state state = ring_handshake_advance(&handshake);
    if (state == RING_HANDSHAKE_DONE || state == RING_HANDSHAKE_REFUSED) break;
    ring_peers_accept(host, &poll_set);
    usleep(100);
  }
  CHECK_INT(handshake.state,
            answer == RING_ANSWER_ACCEPTED ? RING_HANDSHAKE_DONE : RING_HANDSHAKE_REFUSED);
  CHECK_INT(handshake.answer, answer);
  ring_poll_set_fini(&poll_set);
  return fd;
}

static void test_connections_come_in_order(void) {
  ring_peers host;
  int descriptors = count_descriptors(), port = begin_host(&host), fd[9];
  fd[0] = bring_lane(&host, port, 1, 3, RING_ANSWER_CONNECTIONS);
  fd[1] = bring_lane(&host, port, 0, 3, RING_ANSWER_ACCEPTED);
  fd[2] = bring_lane(&host, port, 0, 3, RING_ANSWER_CONNECTIONS);
  fd[3] = bring_lane(&host, port, 2, 3, RING_ANSWER_CONNECTIONS);
  fd[4] = bring_lane(&host, port, 1, 2, RING_ANSWER_CONNECTIONS);
  fd[5] = bring_lane(&host, port, 0, 1, RING_ANSWER_CONNECTIONS);
  fd[6] = bring_lane(&host, port, 1, 3, RING_ANSWER_ACCEPTED);
  CHECK(host.peer[1].link == NULL);
  fd[7] = bring_lane(&host, port, 2, 3, RING_ANSWER_ACCEPTED);
  CHECK(host.peer[1].link != NULL && strcmp(host.peer[1].link->ops->name, "tcp x3") == 0);
  fd[8] = bring_lane(&host, port, 0, 1, RING_ANSWER_TWICE);
  for (int i = 0; i < 9; i++) ring_socket_close(&fd[i]);
  ring_peers_fini(&host);
  CHECK_INT(count_descriptors(), descriptors);
}

/* Serves what has come within a moment. */
static ring_status serve(ring_peers *peers, ring_error *error) {
  ring_poll_set poll_set = {0};
  ring_peers_watch(peers, &poll_set);
  ring_status status = ring_poll_set_sleep(&poll_set, 1);
  if (status == RING_OK) status = ring_peers_serve(peers, &poll_set, error);
  ring_poll_set_fini(&poll_set);
  return status;
}

/* If two ranks do not want the same encryption, the accepting and the connecting one both get an error. */
static void test_unlike_ends_of_a_link(void) {
  ring_peers host, client;
  ring_error accepting = {.status = RING_OK}, connecting = {.status = RING_OK};
  int descriptors = count_descriptors(), port = begin_host(&host);
  CHECK_INT(ring_peers_init(&client, 1, 2), RING_OK);
  client.epoch = host.epoch;
  client.encrypted = true;
  memset(&client.keys.vault->job, 1, sizeof client.keys.vault->job);
  CHECK_INT(ring_peers_place(&client, 0, "127.0.0.1", (uint16_t)port), RING_OK);
  CHECK_INT(ring_peers_place(&host, 1, "127.0.0.1", 1), RING_OK);
  CHECK_INT(ring_connector_start(&client, 0, &connecting), RING_OK);
  for (int i = 0; i < 20000 && (accepting.status == RING_OK || connecting.status == RING_OK); i++) {
    if (accepting.status == RING_OK) serve(&host, &accepting);
    if (connecting.status == RING_OK) serve(&client, &connecting);
  }
  CHECK_INT(accepting.status, RING_MISMATCH);
  CHECK_INT(accepting.rank, 1);
  CHECK_INT(connecting.status, RING_MISMATCH);
  CHECK_INT(connecting.rank, 0);
  CHECK_CONTAINS(accepting.message, "rank 1 wants encryption and rank 0 does not");
  CHECK_CONTAINS(connecting.message, "rank 1 wants encryption and rank 0 does not");
  ring_peers_fini(&client);
  ring_peers_fini(&host);
  CHECK_INT(count_descriptors(), descriptors);
}

static void test_connections_that_never_come(void) {
  ring_peers host;
  int descriptors = count_descriptors(), port = begin_host(&host), fd[15];
  for (int i = 0; i < 15; i++) fd[i] = bring_lane(&host, port, i, 16, RING_ANSWER_ACCEPTED);
  CHECK(host.peer[1].link == NULL);
  for (int i = 0; i < 15; i++) ring_socket_close(&fd[i]);
  ring_peers_fini(&host);
  CHECK_INT(count_descriptors(), descriptors);
}

/* ---- A rank that opens too few ------------------------------------------------------------ */

/* Joins as rank 2 does, makes one of several connections to rank 1, and sends nothing more. */
static void bring_too_few(const ring_options *options, int *done) {
  ring_keys keys;
  ring_rendezvous rendezvous = begin_rendezvous(options, &keys);
  ring_wait wait;
  ring_peers peers;
  ring_error error;
  ring_wait_init(&wait, options->timeout, NULL, NULL);
  rendezvous.wait = &wait;
  CHECK_INT(ring_peers_init(&peers, options->rank, options->size), RING_OK);
  CHECK_INT(ring_rendezvous_run(&rendezvous, &peers, &error), RING_OK);
  ring_claim claim = {RING_PURPOSE_LINK, options->rank, options->size, peers.epoch, 0,
                      CONNECTIONS,       false};
  ring_resolved resolved;
  ring_handshake handshake;
  CHECK_INT(ring_socket_resolve("127.0.0.1", peers.peer[1].port, &resolved), 0);
  int fd = ring_socket_connect(&resolved, 0);
  CHECK(fd >= 0 && ring_handshake_connect(&handshake, fd, &peers.keys, &claim, 1));
  CHECK(shake_hands(&handshake));
  ranks_barrier(done, options->size);
  ring_socket_close(&fd);
  ring_peers_fini(&peers);
  ring_keys_wipe(&keys);
}

static void wait_for_connections(int rank, int size, void *shared) {
  ring_options options = rank_options(rank, size);
  int descriptors = count_descriptors();
  options.shared_memory = RING_OFF;
  options.timeout = rank == 1 ? 2 : 30; /* rank 0 gets the error from rank 1 */
  if (rank == 2) {
    bring_too_few(&options, shared);
    return;
  }
  ring_comm *comm;
  ring_error error;
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_TIMEOUT);
  CHECK_CONTAINS(error.message, "rank 1 waited");
  CHECK_CONTAINS(error.message,
                 "rank 2 (127.0.0.1; of whose link 1 of the 3 connections are open)");
  CHECK_INT(count_descriptors(), descriptors);
  ranks_barrier(shared, size);
}

static void test_a_rank_that_opens_too_few(void) {
  RUN_RANKS(3, wait_for_connections, (int[1024]){0});
}

int main(void) {
  RUN(test_numbers_that_cannot_be);
  RUN(test_links);
  RUN(test_links_through_shared_memory);
  RUN(test_ranks_that_disagree);
  RUN(test_connections_come_in_order);
  RUN(test_unlike_ends_of_a_link);
  RUN(test_connections_that_never_come);
  RUN(test_a_rank_that_opens_too_few);
  return 0;
}
