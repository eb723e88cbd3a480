/* SPDX-License-Identifier: Apache-2.0 */
#include "pairs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"

#define GUARD 65536

/* ---- Pairs of links ----------------------------------------------------------------------- */

static void tcp_sockets(int fd[2]) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK_INT(bind(listener, (struct sockaddr *)&address, length), 0);
  CHECK_INT(listen(listener, 1), 0);
  CHECK_INT(getsockname(listener, (struct sockaddr *)&address, &length), 0);
  fd[0] = socket(AF_INET, SOCK_STREAM, 0);
  CHECK_INT(connect(fd[0], (struct sockaddr *)&address, length), 0);
  fd[1] = accept(listener, NULL, NULL);
  close(listener);
}

/* A pipe between pages that nobody may touch. */
static uint8_t *pipe_alloc(void) {
  uint8_t *memory = shared_alloc(RING_PIPE_BYTES + 2 * GUARD);
  CHECK_INT(mprotect(memory, GUARD, PROT_NONE), 0);
  CHECK_INT(mprotect(memory + GUARD + RING_PIPE_BYTES, GUARD, PROT_NONE), 0);
  return memory + GUARD;
}

static bool has_pipes(transport kind) {
  return kind == SHM || kind == SHM_OVER_TCP;
}

static bool has_connections(transport kind) {
  return kind == CONNECTIONS || kind == TLS_OVER_CONNECTIONS;
}

bool pair_encrypts(transport kind) {
  return kind == TLS || kind == TLS_OVER_CONNECTIONS;
}

int pair_sockets(transport kind) {
  return has_connections(kind) ? PAIR_CONNECTIONS : 1;
}

pair pair_make(transport kind) {
  pair made = {.kind = kind};
  for (int connection = 0; connection < pair_sockets(kind); connection++) {
    int fd[2];
    if (kind == SHM)
      CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    else
      tcp_sockets(fd);
    for (int side = 0; side < 2; side++) {
      CHECK(fd[side] >= 0);
      CHECK_INT(fcntl(fd[side], F_SETFL, O_NONBLOCK), 0);
      made.fd[side][connection] = fd[side];
    }
  }
  for (int side = 0; side < 2 && has_pipes(kind); side++) made.pipe[side] = pipe_alloc();
  return made;
}

ring_link *pair_link(const pair *of, int side) {
  static const ring_secret key = {{1, 2, 3}};
  const int *fd = of->fd[side];
  ring_link *link;
  if (has_pipes(of->kind))
    link = ring_link_shm_pipe(fd[0], of->pipe[side], of->pipe[1 - side]);
  else
    link = has_connections(of->kind) ? ring_link_multi_tcp(fd, PAIR_CONNECTIONS)
                                     : ring_link_tcp(fd[0]);
  CHECK(link != NULL);
  if (pair_encrypts(of->kind)) link = ring_link_tls(link, side == 0, &key);
  CHECK(link != NULL);
  return link;
}

void pair_free(pair *of) {
  for (int side = 0; side < 2 && has_pipes(of->kind); side++)
    shared_free(of->pipe[side] - GUARD, RING_PIPE_BYTES + 2 * GUARD);
}

/* Three flights, and some time for each of them to arrive. */
static void pair_shake_hands(ring_link *links[2]) {
  char none;
  for (int turn = 0; turn < 8; turn++) {
    CHECK_INT(links[turn % 2]->ops->peek(links[turn % 2], &none, 1), 0);
    usleep(2000);
  }
}

void pair_open(pair *of, transport kind, ring_link *links[2]) {
  *of = pair_make(kind);
  for (int side = 0; side < 2; side++) links[side] = pair_link(of, side);
  if (pair_encrypts(kind)) pair_shake_hands(links);
}

void pair_close(pair *of, ring_link *links[2]) {
  for (int side = 0; side < 2; side++) links[side]->ops->close(links[side]);
  pair_free(of);
}

ring_link *pair_fork(pair *of, transport kind, void (*peer)(ring_link *), pid_t *child) {
  *of = pair_make(kind);
  fflush(NULL);
  *child = fork();
  CHECK(*child >= 0);
  for (int connection = 0; connection < pair_sockets(kind); connection++)
    close(of->fd[*child == 0 ? 0 : 1][connection]);
  if (*child > 0) return pair_link(of, 0);
  alarm(120);
  ring_link *link = pair_link(of, 1);
  peer(link);
  link->ops->close(link);
  exit(0);
}

void pair_join(pair *of, ring_link *link, pid_t child, int expected) {
  int status;
  CHECK_INT(waitpid(child, &status, 0), child);
  CHECK_INT(status, expected);
  link->ops->close(link);
  pair_free(of);
}

/* ---- Verbs -------------------------------------------------------------------------------- */

ssize_t link_send(ring_link *link, const void *bytes, size_t length) {
  struct iovec piece = {(void *)(uintptr_t)bytes, length};
  return link->ops->send(link, &piece, 1);
}

ssize_t link_receive(ring_link *link, void *bytes, size_t length) {
  struct iovec piece = {bytes, length};
  return link->ops->receive(link, &piece, 1);
}

short link_poll(ring_link *link, short events, int milliseconds) {
  struct pollfd entry = {.fd = link->fd, .events = link->ops->arm(link, events)};
  if (entry.events == 0) return 0;
  CHECK(poll(&entry, 1, milliseconds) >= 0);
  return entry.revents;
}

void link_sleep(ring_link *link, short events) {
  CHECK(link_poll(link, events, WAKE_MS) != 0);
}

size_t link_drain(ring_link *link, uint8_t *bytes, size_t capacity) {
  size_t received = 0;
  for (;;) {
    ssize_t got = link_receive(link, bytes + received, capacity - received);
    if (got < 0) return received;
    received += (size_t)got;
    CHECK(received < capacity);
    if (got == 0) link_sleep(link, POLLIN);
  }
}

size_t link_fill(ring_link *link, const uint8_t *bytes, size_t length) {
  size_t filled = 0;
  for (int quiet = 0; quiet < 3;) {
    ssize_t sent = link_send(link, bytes, length);
    CHECK(sent >= 0);
    filled += (size_t)sent;
    if (sent > 0) continue;
    link_poll(link, POLLOUT, 20); /* TCP moves bytes on for a while */
    quiet++;
  }
  return filled;
}

void link_send_out(ring_link *link) {
  char bytes[1000] = {0};
  for (;;) {
    ssize_t sent = link_send(link, bytes, sizeof bytes);
    if (sent == 0) link_sleep(link, POLLOUT);
    if (sent >= 0) continue;
    CHECK(sent == -EPIPE || sent == -ECONNRESET);
    return;
  }
}
