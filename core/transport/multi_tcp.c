/* SPDX-License-Identifier: Apache-2.0
 *
 * One link over several TCP connections, for networks where a single flow gets only a part of the
 * bandwidth of the card or of the paths between two hosts.
 *
 * The stream of each direction is cut into stripes; stripe s travels on connection s mod
 * connections. Both ends know the position of the stream from the bytes that they have moved, so
 * nothing is added on the wire and order is kept. A side moves bytes only on the connection of its
 * position, and goes on to the next connection with the next stripe. Stripes behind a slow
 * connection wait in the socket buffers.
 *
 * A sleeper waits for the connections of its two positions, and for a break of any connection: the
 * descriptor of the link watches all of them. The end of the peer arrives in order, behind its last
 * byte, on the connection of the position. A connection that breaks breaks the link, after all
 * bytes that can be read have been read.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>

#include "auth/handshake.h"
#include "base/platform.h"
#include "transport/link.h"
#include "transport/socket.h"

/* Small enough that a frame of the engine (256 KiB) uses all of a few connections, large enough
 * that the system call costs little beside the copy. */
#define MULTI_TCP_STRIPE (64 * 1024)
#define MULTI_TCP_PIECES 4 /* of one system call */

typedef ssize_t (*multi_tcp_verb)(ring_link *connection, const struct iovec *pieces, int count);

typedef struct multi_tcp_link {
  ring_link base; /* its fd watches the connections */
  ring_link_ops ops;
  uint64_t sent, received;
  int count;
  int broken; /* errno of a connection that broke, or 0 */
  bool armed; /* since the connections were last checked */
  ring_link *connections[RING_CONNECTIONS_MAX];
  short watched[RING_CONNECTIONS_MAX]; /* events watched for */
} multi_tcp_link;

static int multi_tcp_at(const multi_tcp_link *link, uint64_t position) {
  return (int)(position / MULTI_TCP_STRIPE % (uint64_t)link->count);
}

/* ---- Sleeping ----------------------------------------------------------------------------- */

/* An idle link is left out of the poll: its watcher cannot distinguish a break from arriving bytes. */
static short multi_tcp_arm(ring_link *base, short events) {
  multi_tcp_link *link = (multi_tcp_link *)base;
  int in = multi_tcp_at(link, link->received), out = multi_tcp_at(link, link->sent);
  if (events == 0) return 0;
  for (int i = 0; i < link->count; i++) {
    short wanted = (short)((i == in ? events & POLLIN : 0) | (i == out ? events & POLLOUT : 0));
    if (wanted != 0) wanted = link->connections[i]->ops->arm(link->connections[i], wanted);
    if (wanted == link->watched[i]) continue;
    ring_platform_watch_for(base->fd, link->connections[i]->fd, wanted);
    link->watched[i] = wanted;
  }
  link->armed = true;
  return POLLIN;
}

/* After a sleep without progress: checks whether a connection that is at no position has broken. An
 * orderly end also sets POLLHUP, but is no error. */
static void multi_tcp_look(multi_tcp_link *link) {
  struct pollfd entries[RING_CONNECTIONS_MAX];
  link->armed = false;
  for (int i = 0; i < link->count; i++)
    entries[i] = (struct pollfd){.fd = link->connections[i]->fd};
  if (poll(entries, (nfds_t)link->count, 0) <= 0) return;
  for (int i = 0; i < link->count && link->broken == 0; i++) {
    if ((entries[i].revents & POLLERR) == 0) continue;
    int code = ring_socket_failure(link->connections[i]->fd);
    link->broken = code != 0 ? code : EPIPE;
  }
}

/* ---- Moving ------------------------------------------------------------------------------- */

/* The result of a verb that has moved nothing; `got` is that of the connection. */
static ssize_t multi_tcp_stuck(multi_tcp_link *link, ssize_t got) {
  if (got == 0 && link->armed) multi_tcp_look(link);
  return got == 0 && link->broken != 0 ? -link->broken : got;
}

/* The bytes of the pieces behind the first `skip`, at most `capacity`. */
static int multi_tcp_cut(const struct iovec *pieces, int count, size_t skip, size_t capacity,
                         struct iovec cut[MULTI_TCP_PIECES], size_t *length) {
  int cuts = 0;
  *length = 0;
  for (int i = 0; i < count && cuts < MULTI_TCP_PIECES && capacity > 0; i++) {
    size_t skipped = skip < pieces[i].iov_len ? skip : pieces[i].iov_len;
    size_t take = pieces[i].iov_len - skipped;
    if (take > capacity) take = capacity;
    skip -= skipped;
    if (take == 0) continue;
    cut[cuts++] = (struct iovec){(uint8_t *)pieces[i].iov_base + skipped, take};
    *length += take;
    capacity -= take;
  }
  return cuts;
}

/* Moves stripe after stripe until a connection moves only part of one. */
static ssize_t multi_tcp_move(multi_tcp_link *link, multi_tcp_verb verb, uint64_t *position,
                              const struct iovec *pieces, int count) {
  uint64_t begun = *position;
  for (;;) {
    struct iovec cut[MULTI_TCP_PIECES];
    size_t length, left = MULTI_TCP_STRIPE - (size_t)(*position % MULTI_TCP_STRIPE);
    int cuts = multi_tcp_cut(pieces, count, (size_t)(*position - begun), left, cut, &length);
    if (cuts == 0) break;
    ssize_t moved = verb(link->connections[multi_tcp_at(link, *position)], cut, cuts);
    if (moved <= 0 && *position == begun) return multi_tcp_stuck(link, moved);
    if (moved <= 0) break; /* the next call gets the error */
    *position += (uint64_t)moved;
    if ((size_t)moved < length) break;
  }
  link->armed = false;
  return (ssize_t)(*position - begun);
}

static ssize_t multi_tcp_send(ring_link *base, const struct iovec *pieces, int count) {
  multi_tcp_link *link = (multi_tcp_link *)base;
  if (link->broken != 0) return -link->broken;
  return multi_tcp_move(link, link->connections[0]->ops->send, &link->sent, pieces, count);
}

static ssize_t multi_tcp_receive(ring_link *base, const struct iovec *pieces, int count) {
  multi_tcp_link *link = (multi_tcp_link *)base;
  return multi_tcp_move(link, link->connections[0]->ops->receive, &link->received, pieces, count);
}

static ssize_t multi_tcp_peek(ring_link *base, void *bytes, size_t length) {
  multi_tcp_link *link = (multi_tcp_link *)base;
  size_t seen = 0;
  while (seen < length) {
    uint64_t position = link->received + seen;
    ring_link *connection = link->connections[multi_tcp_at(link, position)];
    size_t want = MULTI_TCP_STRIPE - (size_t)(position % MULTI_TCP_STRIPE);
    if (want > length - seen) want = length - seen;
    ssize_t got = connection->ops->peek(connection, (uint8_t *)bytes + seen, want);
    if (got <= 0 && seen == 0) return multi_tcp_stuck(link, got);
    if (got > 0) seen += (size_t)got;
    if (got < (ssize_t)want) break;
  }
  return (ssize_t)seen;
}

/* ---- Beginning and ending ----------------------------------------------------------------- */

static void multi_tcp_finish(ring_link *base) {
  const multi_tcp_link *link = (const multi_tcp_link *)base;
  for (int i = 0; i < link->count; i++) link->connections[i]->ops->finish(link->connections[i]);
}

static void multi_tcp_close(ring_link *base) {
  multi_tcp_link *link = (multi_tcp_link *)base;
  for (int i = 0; i < link->count; i++) link->connections[i]->ops->close(link->connections[i]);
  ring_socket_close(&base->fd);
  free(link);
}

static uint32_t multi_tcp_silence(ring_link *base) {
  const multi_tcp_link *link = (const multi_tcp_link *)base;
  uint32_t longest = 0;
  for (int i = 0; i < link->count; i++) {
    uint32_t silence = link->connections[i]->ops->silence(link->connections[i]);
    if (silence > longest) longest = silence;
  }
  return longest;
}

static bool multi_tcp_arrived(ring_link *base) {
  const multi_tcp_link *link = (const multi_tcp_link *)base;
  for (int i = 0; i < link->count; i++)
    if (!link->connections[i]->ops->arrived(link->connections[i])) return false;
  return true;
}

static bool multi_tcp_join(multi_tcp_link *link, const int *fds, int count) {
  link->base.fd = ring_platform_watcher();
  if (link->base.fd < 0) {
    errno = -link->base.fd; /* for the caller */
    link->base.fd = -1;
    return false;
  }
  for (; link->count < count; link->count++) {
    ring_link *connection = ring_link_tcp(fds[link->count]);
    if (connection == NULL) return false;
    link->connections[link->count] = connection;
    if (ring_platform_watch(link->base.fd, connection->fd)) continue;
    link->count++;
    return false;
  }
  return true;
}

/* By their number of connections. */
static const char *const multi_tcp_names[RING_CONNECTIONS_MAX + 1] = {
    NULL,     NULL,      "tcp x2",  "tcp x3",  "tcp x4",  "tcp x5",  "tcp x6",  "tcp x7", "tcp x8",
    "tcp x9", "tcp x10", "tcp x11", "tcp x12", "tcp x13", "tcp x14", "tcp x15", "tcp x16"};

ring_link *ring_link_multi_tcp(const int *fds, int count) {
  multi_tcp_link *link = calloc(1, sizeof *link);
  if (link == NULL) return NULL;
  link->ops = (ring_link_ops){
      multi_tcp_names[count], multi_tcp_send,  multi_tcp_receive, multi_tcp_peek,    multi_tcp_arm,
      multi_tcp_finish,       multi_tcp_close, multi_tcp_silence, multi_tcp_arrived, true};
  link->base.ops = &link->ops;
  if (multi_tcp_join(link, fds, count)) return &link->base;
  int code = errno;
  for (int i = 0; i < link->count; i++) link->connections[i]->fd = -1; /* the caller's */
  multi_tcp_close(&link->base);
  errno = code;
  return NULL;
}
