/* SPDX-License-Identifier: Apache-2.0
 *
 * Outsiders during a rendezvous: ports in use by other processes, connections that prove nothing,
 * ranks with another token or of an earlier attempt, and a listener that poses as rank 0.
 */
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "auth/handshake.h"
#include "base/bytes.h"
#include "check.h"
#include "held_ports.h"
#include "openings.h"
#include "ranks.h"
#include "rendezvous/message.h"
#include "transport/socket.h"
#include "wire.h"

/* ---- On rank 0's ports and at its door ---------------------------------------------------- */

static void join_past_outsiders(int rank, int size, void *shared) {
  const held_ports *held = shared;
  ring_options options = rank_options(rank, size);
  options.port_first = held->first;
  options.port_last = held->last;
  open_check_close(&options);
}

static void test_ports_that_are_taken(void) {
  held_ports *shared = shared_alloc(4096);
  *shared = hold_ports(6); /* four are held: with two ranks, each has one to find */
  run_ranks(2, join_past_outsiders, shared);
  held_ports held = *shared;
  free_ports(&held);
  shared_free(shared, 4096);
}

/* Answers as a web server would, until both ranks are done. */
static void answer_garbage(const held_ports *held, volatile int *done) {
  struct pollfd entries[8];
  for (int i = 0; i < held->held; i++)
    entries[i] = (struct pollfd){.fd = held->listeners[i], .events = POLLIN};
  while (*done < 2) {
    CHECK(poll(entries, (nfds_t)held->held, 10) >= 0);
    for (int i = 0; i < held->held; i++) {
      int fd = accept(entries[i].fd, NULL, NULL);
      if (fd < 0) continue;
      CHECK_INT(send(fd, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", 47, MSG_NOSIGNAL),
                47);
      close(fd);
    }
  }
}

static void join_past_a_web_server(int rank, int size, void *shared) {
  held_ports *held = shared;
  int *done = (int *)(held + 1);
  if (rank == size - 1) {
    answer_garbage(held, done);
    return;
  }
  join_past_outsiders(rank, size - 1, shared);
  __sync_fetch_and_add(done, 1);
}

static void test_ports_that_answer_something_else(void) {
  held_ports *shared = shared_alloc(4096);
  *shared = hold_ports(6);
  run_ranks(3, join_past_a_web_server, shared);
  held_ports held = *shared;
  free_ports(&held);
  shared_free(shared, 4096);
}

/* Connections of outsiders to rank 0 while the job forms: more than the acceptor has places for. */
static void be_pestered(int rank, int size, void *shared) {
  held_ports *held = shared;
  ring_options options = rank_options(rank, size - 1);
  options.port_first = held->first;
  options.port_last = held->last;
  if (rank < size - 1) {
    volatile int *pestered = (volatile int *)(held + 1);
    while (rank == 1 && !*pestered) usleep(1000);
    open_check_close(&options);
    return;
  }
  int count = 0;
  for (long tries = 0; count < 200 && tries < 200000; tries++) {
    ring_resolved resolved;
    uint16_t port = (uint16_t)(held->first + tries % (held->last - held->first + 1));
    CHECK_INT(ring_socket_resolve("127.0.0.1", port, &resolved), 0);
    int fd = ring_socket_connect(&resolved, 0);
    struct pollfd entry = {.fd = fd, .events = POLLOUT};
    if (fd < 0 || poll(&entry, 1, 1000) != 1 || (entry.revents & POLLERR)) {
      ring_socket_close(&fd);
      continue;
    }
    if (count++ % 2 == 0)
      send(fd, "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: x\r\n\r\n", 51, MSG_NOSIGNAL);
    /* left open: a half-open connection; the process ends with all of them */
  }
  CHECK_INT(count, 200);
  *(volatile int *)(held + 1) = 1;
}

static void test_outsiders_at_rank_0(void) {
  held_ports *shared = shared_alloc(4096);
  *shared = hold_ports(2);
  run_ranks(3, be_pestered, shared);
  shared_free(shared, 4096);
}

/* Connects to rank 0, which listens on one of two ports and may not be there yet. */
static int connect_to_rank_0(const held_ports *held) {
  for (unsigned i = 0;; i++) {
    ring_resolved resolved;
    CHECK(i < 100000);
    CHECK_INT(ring_socket_resolve("127.0.0.1", (uint16_t)(held->first + i % 2), &resolved), 0);
    int fd = ring_socket_connect(&resolved, 0);
    struct pollfd entry = {.fd = fd, .events = POLLOUT};
    if (fd >= 0 && poll(&entry, 1, 1000) == 1 && ring_socket_failure(fd) == 0) return fd;
    ring_socket_close(&fd);
  }
}

/* More connections than the acceptor has places for, each a byte now and then: never quite silent. */
static void be_dribbled_at(int rank, int size, void *shared) {
  enum { OUTSIDERS = 90 };
  held_ports *held = shared;
  int *done = (int *)(held + 1);
  int fds[OUTSIDERS];
  if (rank < size - 1) {
    while (rank == 1 && *(volatile int *)(done + 1) == 0) usleep(1000);
    join_past_outsiders(rank, size - 1, shared);
    __sync_fetch_and_add(done, 1);
    return;
  }
  for (int i = 0; i < OUTSIDERS; i++) fds[i] = connect_to_rank_0(held);
  done[1] = 1;
  for (int round = 0; *(volatile int *)done < 2; round++) {
    CHECK(round < 3000);
    for (int i = 0; i < OUTSIDERS; i++) send(fds[i], "s", 1, MSG_NOSIGNAL);
    usleep(20000);
  }
}

static void test_outsiders_that_dribble(void) {
  held_ports *shared = shared_alloc(4096);
  *shared = hold_ports(2);
  run_ranks(3, be_dribbled_at, shared);
  shared_free(shared, 4096);
}

/* ---- Another token ------------------------------------------------------------------------ */

static void bring_another_token(int rank, int size, void *shared) {
  const held_ports *held = shared;
  ring_options options = rank_options(rank, size);
  options.port_first = held->first;
  options.port_last = held->last;
  options.timeout = 1;
  if (rank == 1) options.token = "a guess at the token";
  if (rank == 1) options.token_length = 20;
  expect_failure(&options, RING_TIMEOUT,
                 rank == 0 ? "missing: rank 1"
                           : "another job, or one with another token, answered");
}

static void test_another_token(void) {
  held_ports *shared = shared_alloc(4096);
  *shared = hold_ports(2);
  run_ranks(2, bring_another_token, shared);
  shared_free(shared, 4096);
}

/* ---- A rank too many ---------------------------------------------------------------------- */

static void keep_text(void *kept, const char *text) {
  snprintf(kept, 512, "%s", text);
}

/* Ranks 0 and 1 form a job; the third process claims to be rank 1, too, after that. */
static void come_too_late(int rank, int size, void *shared) {
  volatile int *memory = shared;
  const uint16_t *ports = (const uint16_t *)shared + 32;
  ring_options options = rank_options(rank == 2 ? 1 : rank, size - 1);
  options.port_first = ports[0];
  options.port_last = ports[1];
  if (rank == 2) {
    static const char formed[] =
        "; a job with this token and these addresses has already formed there";
    char warning[512] = "";
    while (!memory[0]) usleep(1000);
    options.timeout = 1;
    options.warn_after = 0.5;
    options.log = keep_text;
    options.log_arg = warning;
    expect_failure(&options, RING_TIMEOUT, formed);
    CHECK_CONTAINS(warning, formed);
    memory[1] = 1;
    return;
  }
  ring_comm *comm = open_with(&options);
  memory[0] = 1;
  int32_t go_on = 1;
  while (go_on) {
    go_on = !memory[1];
    CHECK_INT(ring_allreduce(comm, &go_on, &go_on, 1, RING_INT32, RING_MIN), RING_OK);
    if (rank == 1) usleep(1000); /* rank 0 waits, and so serves its acceptor */
  }
  close_rank(comm);
}

static void test_a_rank_left_over(void) {
  held_ports held = hold_ports(4);
  uint16_t *shared = shared_alloc(4096);
  shared[32] = held.first;
  shared[33] = held.last;
  free_ports(&held);
  run_ranks(3, come_too_late, shared);
  shared_free(shared, 4096);
}

/* ---- A false rank 0 ----------------------------------------------------------------------- */

/* Welcomes a rank with a note that is one byte too long; false when nobody comes any more. */
static bool welcome_falsely(int listener, const ring_keys *keys, char name) {
  struct pollfd entry = {.fd = listener, .events = POLLIN};
  if (poll(&entry, 1, 1000) != 1) return false;
  ring_handshake handshake;
  entry.fd = ring_socket_accept(listener);
  CHECK(ring_handshake_accept(&handshake, entry.fd, keys, 0, 2, false));
  if (!shake_hands(&handshake)) return true; /* it went away */
  uint8_t wire[MESSAGE_WIRE_BYTES], join[RING_JOIN_BYTES + RING_SEAL_BYTES];
  ring_message message = {.fault = -1};
  ring_seal seal;
  uint8_t *to = bytes_put(bytes_put(message.body, 1, 8), 99, 2);
  to = bytes_put(to, 1, 1);
  *to++ = (uint8_t)name;
  to = bytes_put(to, 0, 1);
  message.length = (size_t)(to - message.body);
  CHECK(ring_seal_begin(&seal, &handshake));
  size_t length = seal_message(&seal, &message, wire);
  if (poll(&entry, 1, 1000) == 1) CHECK_INT(recv(entry.fd, join, sizeof join, 0), sizeof join);
  send(entry.fd, wire, length, MSG_NOSIGNAL);
  if (poll(&entry, 1, 1000) == 1) ring_socket_close(&entry.fd); /* it has read and hung up */
  return true;
}

static void open_to_an_impostor(int rank, int size, void *shared) {
  const held_ports *held = shared;
  ring_options options = rank_options(rank, size);
  options.token = NULL; /* so that an impostor has the key, too */
  options.token_length = 0;
  if (rank == 0) {
    ring_keys keys;
    begin_rendezvous(&options, &keys);
    int welcomes = 0;
    while (welcomes < 20 && welcome_falsely(held->listeners[0], &keys, (char)('a' + welcomes)))
      welcomes++;
    CHECK(welcomes >= 3);
    ring_keys_wipe(&keys);
    return;
  }
  options.port_first = held->first;
  options.port_last = held->last;
  options.timeout = 2;
  CHECK_INT(expect_failure(&options, RING_PEER_LOST, "rank 0 (127.0.0.1) was lost in open()"), 0);
}

static void test_a_false_rank_0(void) {
  held_ports *shared = shared_alloc(4096);
  *shared = hold_ports(3);
  run_ranks(2, open_to_an_impostor, shared);
  held_ports held = *shared;
  free_ports(&held);
  shared_free(shared, 4096);
}

int main(void) {
  RUN(test_ports_that_are_taken);
  RUN(test_ports_that_answer_something_else);
  RUN(test_outsiders_at_rank_0);
  RUN(test_outsiders_that_dribble);
  RUN(test_another_token);
  RUN(test_a_rank_left_over);
  RUN(test_a_false_rank_0);
  return 0;
}
