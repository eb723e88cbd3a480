/* SPDX-License-Identifier: Apache-2.0
 *
 * The promises of every transport (link.h), checked for each of them by the same functions: order and
 * content, moves in parts, sleeping without a lost wake-up, and the end of the peer, orderly and by a
 * kill.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/platform.h"
#include "check.h"
#include "pairs.h"

enum { LONGEST = 60000, PIECES = 3, STREAM = 8 << 20 };
#define ROOM (16 << 20) /* more than any link holds */

/* ---- Streams ------------------------------------------------------------------------------ */

static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void linger(uint32_t nanoseconds) {
  uint64_t until = ring_platform_now() + nanoseconds;
  while (ring_platform_now() < until) ring_platform_pause();
}

static uint8_t stream_byte(int side, uint64_t at) {
  return (uint8_t)((at * 0x9E3779B97F4A7C15u >> 37) + (unsigned)side);
}

typedef struct stream {
  ring_link *link;
  int side;
  uint32_t random;
  size_t longest; /* piece */
  uint64_t sent, received;
  uint8_t bytes[PIECES * LONGEST];
} stream;

/* Some pieces one behind the other, of random lengths: a byte in all at least. */
static int stream_pieces(stream *of, uint64_t left, struct iovec pieces[PIECES]) {
  int count = 1 + (int)(next_random(&of->random) % PIECES);
  uint8_t *at = of->bytes;
  for (int i = 0; i < count; i++) {
    size_t length = next_random(&of->random) % (of->longest + 1);
    if (next_random(&of->random) % 3 == 0) length %= 50;
    if (length > left) length = (size_t)left;
    if (i == count - 1 && at == of->bytes && length == 0) length = 1;
    pieces[i] = (struct iovec){at, length};
    at += length;
    left -= length;
  }
  return count;
}

static bool stream_send(stream *of, uint64_t total) {
  struct iovec pieces[PIECES];
  int count = stream_pieces(of, total - of->sent, pieces);
  uint8_t *end = (uint8_t *)pieces[count - 1].iov_base + pieces[count - 1].iov_len;
  for (uint8_t *at = of->bytes; at < end; at++)
    *at = stream_byte(of->side, of->sent + (uint64_t)(at - of->bytes));
  ssize_t sent = of->link->ops->send(of->link, pieces, count);
  CHECK(sent >= 0);
  of->sent += (uint64_t)sent;
  return sent > 0;
}

static void stream_check(const stream *of, ssize_t got) {
  CHECK(got >= 0);
  for (ssize_t i = 0; i < got; i++)
    CHECK_INT(of->bytes[i], stream_byte(1 - of->side, of->received + (uint64_t)i));
}

static bool stream_receive(stream *of, uint64_t total) {
  struct iovec pieces[PIECES];
  if (next_random(&of->random) % 4 == 0)
    stream_check(of, of->link->ops->peek(of->link, of->bytes, of->longest));
  int count = stream_pieces(of, total - of->received, pieces);
  ssize_t got = of->link->ops->receive(of->link, pieces, count);
  stream_check(of, got);
  of->received += (uint64_t)got;
  return got > 0;
}

/* Sends and receives `out` and `in` bytes at the same time, and sleeps whenever nothing moves. */
static void stream_run(ring_link *link, int side, size_t longest, uint64_t out, uint64_t in) {
  stream *of = calloc(1, sizeof *of);
  CHECK(of != NULL);
  *of = (stream){.link = link, .side = side, .random = (uint32_t)side + 7, .longest = longest};
  while (of->sent < out || of->received < in) {
    bool moved = of->sent < out && stream_send(of, out);
    if (of->received < in && stream_receive(of, in)) moved = true;
    short events = (short)((of->sent < out ? POLLOUT : 0) | (of->received < in ? POLLIN : 0));
    if (!moved && events != 0) link_sleep(link, events);
  }
  free(of);
}

/* ---- Both ends in one process ------------------------------------------------------------- */

static void test_empty(transport kind) {
  pair of;
  ring_link *links[2];
  char bytes[16];
  pair_open(&of, kind, links);
  CHECK_INT(link_receive(links[1], bytes, sizeof bytes), 0);
  CHECK_INT(links[1]->ops->peek(links[1], bytes, sizeof bytes), 0);
  CHECK_INT(link_poll(links[1], POLLIN, 0), 0);
  CHECK_INT(link_send(links[0], "bytes", 5), 5);
  link_sleep(links[1], POLLIN);
  CHECK_INT(links[1]->ops->peek(links[1], bytes, 3), 3);
  CHECK_INT(links[1]->ops->peek(links[1], bytes, sizeof bytes), 5);
  CHECK_INT(memcmp(bytes, "bytes", 5), 0);
  CHECK_INT(link_receive(links[1], bytes, 2), 2);
  CHECK_INT(link_receive(links[1], bytes + 2, sizeof bytes - 2), 3);
  CHECK_INT(memcmp(bytes, "bytes", 5), 0);
  CHECK_INT(link_receive(links[1], bytes, sizeof bytes), 0);
  CHECK_INT(link_poll(links[1], POLLIN, 0), 0);
  pair_close(&of, links);
}

/* A link that is full takes no more until its receiver takes some; then its sender is woken. */
static void test_full(transport kind) {
  pair of;
  ring_link *links[2];
  uint8_t *bytes = calloc(1, ROOM);
  pair_open(&of, kind, links);
  size_t sent = link_fill(links[0], bytes, ROOM);
  if (of.pipe[0] != NULL) CHECK_INT(sent, RING_PIPE_BYTES - 4096);
  CHECK_INT(link_poll(links[0], POLLOUT, 0), 0);
  CHECK_INT(link_send(links[1], "ahead", 5), 5);
  link_sleep(links[0], POLLIN | POLLOUT);
  CHECK_INT(link_receive(links[0], bytes, ROOM), 5);
  CHECK_INT(link_poll(links[0], POLLOUT, 0), 0);
  size_t received = 0,
         last = pair_encrypts(kind) ? sent + 1 : sent; /* of a record that is half sent */
  while (received < last) {
    if (sent < last) sent += (size_t)link_send(links[0], bytes, 1);
    link_sleep(links[1], POLLIN);
    ssize_t got = link_receive(links[1], bytes, ROOM);
    CHECK(got >= 0);
    received += (size_t)got;
  }
  link_sleep(links[0], POLLOUT);
  CHECK(link_send(links[0], bytes, ROOM) > 0);
  free(bytes);
  pair_close(&of, links);
}

static void test_finish(transport kind) {
  pair of;
  ring_link *links[2];
  uint8_t *bytes = malloc(ROOM);
  pair_open(&of, kind, links);
  for (size_t i = 0; i < 100000; i++) bytes[i] = stream_byte(0, i);
  CHECK_INT(link_send(links[0], bytes, 100000), 100000);
  links[0]->ops->finish(links[0]);
  memset(bytes, 0, 100000);
  CHECK_INT(link_drain(links[1], bytes, ROOM), 100000);
  for (size_t i = 0; i < 100000; i++) CHECK_INT(bytes[i], stream_byte(0, i));
  CHECK_INT(link_receive(links[1], bytes, 1), -EPIPE);
  CHECK_INT(links[1]->ops->peek(links[1], bytes, 1), -EPIPE);
  free(bytes);
  pair_close(&of, links);
}

/* An end in order is no break, although bytes that came before it still lie unread. */
static void test_close(transport kind) {
  pair of;
  ring_link *links[2];
  char bytes[8];
  pair_open(&of, kind, links);
  CHECK_INT(link_send(links[0], "bytes", 5), 5);
  links[0]->ops->close(links[0]);
  CHECK_INT(link_poll(links[1], 0, 100), 0);
  link_sleep(links[1], POLLIN);
  CHECK_INT(links[1]->ops->peek(links[1], bytes, sizeof bytes), 5);
  CHECK_INT(link_receive(links[1], bytes, sizeof bytes), 5);
  CHECK_INT(link_receive(links[1], bytes, sizeof bytes), -EPIPE);
  ssize_t sent = 0;
  for (int tries = 0; sent >= 0 && tries < 10; tries++) {
    sent = link_send(links[1], "bytes", 5);
    if (sent >= 0) link_poll(links[1], POLLOUT, 10);
  }
  CHECK(sent == -EPIPE || sent == -ECONNRESET);
  links[1]->ops->close(links[1]);
  pair_free(&of);
}

/* Without ever sleeping, too, an end is noticed soon. */
static void test_end_while_spinning(transport kind) {
  pair of;
  ring_link *links[2];
  char byte;
  ssize_t got = 0;
  pair_open(&of, kind, links);
  CHECK_INT(link_receive(links[1], &byte, 1), 0);
  links[0]->ops->close(links[0]);
  for (int tries = 0; got == 0 && tries < 1000000; tries++) got = link_receive(links[1], &byte, 1);
  CHECK_INT(got, -EPIPE);
  links[1]->ops->close(links[1]);
  pair_free(&of);
}

static void *stream_thread(void *link) {
  stream_run(link, 1, LONGEST, STREAM, STREAM);
  return NULL;
}

static void test_stream_of_threads(transport kind) {
  pair of;
  ring_link *links[2];
  pthread_t thread;
  pair_open(&of, kind, links);
  CHECK_INT(pthread_create(&thread, NULL, stream_thread, links[1]), 0);
  stream_run(links[0], 0, LONGEST, STREAM, STREAM);
  CHECK_INT(pthread_join(thread, NULL), 0);
  pair_close(&of, links);
}

/* ---- Two processes ------------------------------------------------------------------------ */

static void stream_peer(ring_link *link) {
  stream_run(link, 1, LONGEST, STREAM, STREAM);
}

static void test_stream(transport kind) {
  pair of;
  pid_t child;
  ring_link *link = pair_fork(&of, kind, stream_peer, &child);
  stream_run(link, 0, LONGEST, STREAM, STREAM);
  pair_join(&of, link, child, 0);
}

/* The receiver takes little at a time, so that its sender sleeps and is woken over and over. */
static void trickle_peer(ring_link *link) {
  stream_run(link, 1, 300, 0, STREAM / 2);
}

static void test_full_over_and_over(transport kind) {
  pair of;
  pid_t child;
  ring_link *link = pair_fork(&of, kind, trickle_peer, &child);
  stream_run(link, 0, LONGEST, STREAM / 2, 0);
  pair_join(&of, link, child, 0);
}

static int handovers;

/* Messages to and fro. Both sides let a random moment pass, one before it sends, the other before it
 * sleeps, so that bytes often come just between its last look and its sleep. As a wake-up takes much
 * longer than that moment, nobody sleeps in most turns, if it can be helped. */
static void hand_over(ring_link *link, int side) {
  enum { MOMENT_NS = 700, LONG_NS = 200000 };
  uint32_t random = (uint32_t)side;
  char message[64] = {0};
  for (int turn = 0; turn < handovers; turn++) {
    size_t length = 1 + (size_t)turn % sizeof message;
    if (turn % 2 == side) {
      linger(next_random(&random) % MOMENT_NS);
      memset(message, turn, length);
      ssize_t sent;
      while ((sent = link_send(link, message, length)) == 0) link_sleep(link, POLLOUT);
      CHECK_INT(sent, length);
      continue;
    }
    uint32_t moment = next_random(&random) % MOMENT_NS;
    uint64_t until = ring_platform_now() + (turn % 3 == 0 ? moment : LONG_NS);
    for (size_t have = 0; have < length;) {
      ssize_t got = link_receive(link, message + have, length - have);
      CHECK(got >= 0);
      have += (size_t)got;
      if (got == 0 && ring_platform_now() >= until) link_sleep(link, POLLIN);
    }
    CHECK_INT(message[length - 1], (char)turn);
  }
}

static void hand_over_peer(ring_link *link) {
  hand_over(link, 1);
}

static void test_handovers(transport kind) {
  pair of;
  pid_t child;
  handovers = kind == SHM ? 100000 : 10000;
  ring_link *link = pair_fork(&of, kind, hand_over_peer, &child);
  hand_over(link, 0);
  pair_join(&of, link, child, 0);
}

/* ---- Peers that end ----------------------------------------------------------------------- */

static void expect_end(ring_link *link) {
  char byte;
  ssize_t got;
  while ((got = link_receive(link, &byte, 1)) == 0) link_sleep(link, POLLIN);
  CHECK(got == -EPIPE || got == -ECONNRESET);
}

static void test_close_while_the_peer_sleeps(transport kind) {
  pair of;
  pid_t child;
  ring_link *link = pair_fork(&of, kind, expect_end, &child);
  usleep(30000);
  link->ops->finish(link);
  pair_join(&of, link, child, 0);
}

/* The peer is killed while this side sleeps, for want of bytes or of room. */
static void wait_for_ever(ring_link *link) {
  (void)link;
  for (;;) pause();
}

static void test_kill_while_this_side_waits(transport kind) {
  for (int sends = 0; sends < 2; sends++) {
    pair of;
    pid_t child;
    ring_link *link = pair_fork(&of, kind, wait_for_ever, &child);
    pid_t killer = fork();
    if (killer == 0) {
      usleep(30000);
      kill(child, SIGKILL);
      _exit(0);
    }
    if (sends)
      link_send_out(link);
    else
      expect_end(link);
    CHECK_INT(waitpid(killer, NULL, 0), killer);
    pair_join(&of, link, child, SIGKILL);
  }
}

static void stream_for_ever(ring_link *link) {
  stream_run(link, 1, LONGEST, UINT64_MAX / 2, 0);
}

/* The peer is killed while it sends: what it sent before is still read, in order. */
static void test_kill_while_it_sends(transport kind) {
  pair of;
  pid_t child;
  uint8_t *bytes = malloc(ROOM);
  ring_link *link = pair_fork(&of, kind, stream_for_ever, &child);
  while (link->ops->peek(link, bytes, 1) == 0) link_sleep(link, POLLIN);
  usleep(10000);
  kill(child, SIGKILL);
  size_t received = link_drain(link, bytes, ROOM);
  CHECK(received > 0);
  for (size_t i = 0; i < received; i++) CHECK_INT(bytes[i], stream_byte(1, i));
  free(bytes);
  pair_join(&of, link, child, SIGKILL);
}

/* If sockets of one host report an end at once, the link does although nothing else is awaited. */
static void test_kill_is_a_break(void) {
  pair of;
  pid_t child;
  ring_link *link = pair_fork(&of, SHM, wait_for_ever, &child);
  kill(child, SIGKILL);
  CHECK(link_poll(link, 0, WAKE_MS) & POLLHUP);
  pair_join(&of, link, child, SIGKILL);
}

/* ---- Connections -------------------------------------------------------------------------- */

/* The connection of a connection breaks, and with it the link: whoever sleeps is woken, what had come
 * before is still read. Bytes are on connection 0. */
static void test_a_connection_breaks(void) {
  for (int connection = 0; connection < PAIR_CONNECTIONS; connection++) {
    pair of;
    ring_link *links[2];
    char bytes[8];
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    pair_open(&of, CONNECTIONS, links);
    CHECK_INT(link_send(links[1], "bytes", 5), 5);
    link_sleep(links[0], POLLIN);
    CHECK_INT(link_receive(links[0], bytes, 2), 2);
    CHECK_INT(connect(of.fd[1][connection], &nowhere, sizeof nowhere), 0); /* resets it */
    link_sleep(links[0], POLLIN);
    CHECK_INT(link_receive(links[0], bytes, sizeof bytes), 3);
    link_sleep(links[0], POLLIN);
    CHECK_INT(link_receive(links[0], bytes, sizeof bytes), -ECONNRESET);
    CHECK(link_receive(links[0], bytes, sizeof bytes) < 0);
    if (connection != 0) CHECK_INT(link_send(links[0], "bytes", 5), -ECONNRESET);
    pair_close(&of, links);
  }
}

/* Too few descriptors for a link: the sockets stay the caller's. */
static void test_no_descriptors_for_connections(void) {
  pair of = pair_make(CONNECTIONS);
  struct rlimit limit, none;
  CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
  none = limit;
  none.rlim_cur = 0;
  CHECK_INT(setrlimit(RLIMIT_NOFILE, &none), 0);
  CHECK(ring_link_multi_tcp(of.fd[0], PAIR_CONNECTIONS) == NULL);
  CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ring_link *links[2];
  for (int side = 0; side < 2; side++) links[side] = pair_link(&of, side);
  CHECK_INT(link_send(links[0], "bytes", 5), 5);
  link_sleep(links[1], POLLIN);
  pair_close(&of, links);
}

/* ---- All of them -------------------------------------------------------------------------- */

static void each(const char *name, void (*test)(transport)) {
  static const char *const transports[TRANSPORTS] = {
      "TCP", "connections", "TLS", "TLS over connections", "SHM", "SHM over TCP"};
  for (transport kind = TCP; kind < TRANSPORTS; kind++) {
    printf("%s: %s\n", name, transports[kind]);
    fflush(stdout);
    test(kind);
  }
}

#define EACH(test) each(#test, test)

int main(void) {
  EACH(test_empty);
  EACH(test_full);
  EACH(test_finish);
  EACH(test_close);
  EACH(test_end_while_spinning);
  EACH(test_stream_of_threads);
  EACH(test_stream);
  EACH(test_full_over_and_over);
  EACH(test_handovers);
  EACH(test_close_while_the_peer_sleeps);
  EACH(test_kill_while_this_side_waits);
  EACH(test_kill_while_it_sends);
  RUN(test_kill_is_a_break);
  RUN(test_a_connection_breaks);
  RUN(test_no_descriptors_for_connections);
  return 0;
}
