/* SPDX-License-Identifier: Apache-2.0
 *
 * The TCP transport. One system call sends header and payload, and one receives them, straight from
 * and to the caller's buffers. The kernel sizes the socket buffers.
 *
 * Short frames are copied into one piece, because a list of pieces costs the system call more than
 * the copy. A short receive reads ahead all bytes that have arrived, for the next calls: a rank
 * that is behind catches up without a system call for each frame.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/call.h"
#include "transport/link.h"
#include "transport/socket.h"

#define TCP_SHORT 2048
#define TCP_AHEAD (16 * 1024)
#define TCP_PIECES 8 /* of one system call */

typedef struct tcp_link {
  ring_link base;
  size_t from, to; /* of the bytes read ahead */
  uint8_t ahead[TCP_AHEAD];
} tcp_link;

static ssize_t tcp_result(ssize_t moved) {
  if (moved > 0) return moved;
  if (moved == 0) return -EPIPE;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -errno;
}

static size_t tcp_gather(uint8_t *whole, const struct iovec *pieces, int count) {
  size_t length = 0;
  for (int i = 0; i < count; length += pieces[i++].iov_len)
    memcpy(whole + length, pieces[i].iov_base, pieces[i].iov_len);
  return length;
}

/* Copies bytes read ahead into the pieces. */
static ssize_t tcp_scatter(tcp_link *link, const struct iovec *pieces, int count) {
  size_t begun = link->from;
  for (int i = 0; i < count && link->from < link->to; i++) {
    size_t there = link->to - link->from;
    size_t part = there < pieces[i].iov_len ? there : pieces[i].iov_len;
    memcpy(pieces[i].iov_base, link->ahead + link->from, part);
    link->from += part;
  }
  return (ssize_t)(link->from - begun);
}

static size_t tcp_length(const struct iovec *pieces, int count) {
  size_t length = 0;
  for (int i = 0; i < count; i++) length += pieces[i].iov_len;
  return length;
}

static ssize_t tcp_send(ring_link *link, const struct iovec *pieces, int count) {
  uint8_t whole[TCP_SHORT];
  if (count == 1)
    return tcp_result(send(link->fd, pieces->iov_base, pieces->iov_len, MSG_NOSIGNAL));
  if (tcp_length(pieces, count) <= sizeof whole)
    return tcp_result(send(link->fd, whole, tcp_gather(whole, pieces, count), MSG_NOSIGNAL));
  struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
  return tcp_result(sendmsg(link->fd, &message, MSG_NOSIGNAL));
}

/* The pieces behind the first `skip` bytes and, as the last piece, the read-ahead buffer, if all
 * fit. */
static int tcp_cut(tcp_link *link, const struct iovec *pieces, int count, size_t skip,
                   struct iovec cut[TCP_PIECES]) {
  int cuts = 0;
  for (int i = 0; i < count; i++) {
    size_t skipped = skip < pieces[i].iov_len ? skip : pieces[i].iov_len;
    skip -= skipped;
    if (skipped == pieces[i].iov_len) continue;
    if (cuts == TCP_PIECES) return cuts;
    cut[cuts++] =
        (struct iovec){(uint8_t *)pieces[i].iov_base + skipped, pieces[i].iov_len - skipped};
  }
  if (cuts < TCP_PIECES) cut[cuts++] = (struct iovec){link->ahead, RING_HEADER_BYTES};
  return cuts;
}

/* Receives long pieces in place, and with them the header of the next frame. */
static ssize_t tcp_receive_long(tcp_link *link, const struct iovec *pieces, int count, size_t had,
                                size_t length) {
  struct iovec cut[TCP_PIECES];
  int cuts = tcp_cut(link, pieces, count, had, cut);
  struct msghdr message = {.msg_iov = cut, .msg_iovlen = (size_t)cuts};
  ssize_t got = tcp_result(recvmsg(link->base.fd, &message, 0));
  if (got <= 0) return had > 0 ? (ssize_t)had : got;
  size_t taken = (size_t)got < length - had ? (size_t)got : length - had;
  link->from = 0;
  link->to = (size_t)got - taken;
  return (ssize_t)(had + taken);
}

static ssize_t tcp_receive(ring_link *base, const struct iovec *pieces, int count) {
  tcp_link *link = (tcp_link *)base;
  size_t length = tcp_length(pieces, count), had = 0;
  if (link->from < link->to) had = (size_t)tcp_scatter(link, pieces, count);
  if (had == length && length > 0) return (ssize_t)had;
  if (length - had > TCP_SHORT) return tcp_receive_long(link, pieces, count, had, length);
  if (had > 0) return (ssize_t)had;
  ssize_t got = tcp_result(recv(base->fd, link->ahead, sizeof link->ahead, 0));
  if (got <= 0) return got;
  link->from = 0;
  link->to = (size_t)got;
  return tcp_scatter(link, pieces, count);
}

static ssize_t tcp_peek(ring_link *base, void *bytes, size_t length) {
  const tcp_link *link = (const tcp_link *)base;
  size_t there = link->to - link->from;
  if (there > length) there = length;
  memcpy(bytes, link->ahead + link->from, there);
  if (there == length) return (ssize_t)there;
  ssize_t got = tcp_result(recv(base->fd, (uint8_t *)bytes + there, length - there, MSG_PEEK));
  return got <= 0 && there > 0 ? (ssize_t)there : (got < 0 ? got : got + (ssize_t)there);
}

/* Errors wake every sleeper: to ask for them only keeps the link in the poll. What was read ahead
 * is there at once: then a sleep ends because the socket takes more. */
static short tcp_arm(ring_link *base, short events) {
  const tcp_link *link = (const tcp_link *)base;
  if ((events & POLLIN) && link->from < link->to) return POLLIN | POLLOUT;
  return events != 0 ? events : POLLERR;
}

static void tcp_finish(ring_link *link) {
  shutdown(link->fd, SHUT_WR);
}

static void tcp_close(ring_link *link) {
  ring_socket_close(&link->fd);
  free(link);
}

static uint32_t tcp_silence(ring_link *link) {
  return ring_socket_silence(link->fd);
}

static bool tcp_arrived(ring_link *link) {
  return ring_socket_has_arrived(link->fd);
}

static const ring_link_ops tcp_ops = {"tcp",      tcp_send,  tcp_receive, tcp_peek,    tcp_arm,
                                      tcp_finish, tcp_close, tcp_silence, tcp_arrived, true};

ring_link *ring_link_tcp(int fd) {
  tcp_link *link = malloc(sizeof *link);
  if (link == NULL) return NULL;
  link->base = (ring_link){.ops = &tcp_ops, .fd = fd};
  link->from = link->to = 0;
  ring_socket_tune(fd);
  return &link->base;
}
