/* SPDX-License-Identifier: Apache-2.0
 *
 * The TCP transport: header and payload leave in one system call and arrive in one, straight to and
 * from the caller's buffers. Socket buffers are left to the kernel, which sizes them best.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "link.h"
#include "socket.h"

/* Up to so many bytes a copy on the stack is cheaper than what a system call takes to go through a
 * list of pieces. */
#define TCP_SHORT 2048

static ssize_t tcp_result(ssize_t moved) {
  if (moved > 0) return moved;
  if (moved == 0) return -EPIPE;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -errno;
}

/* Fills one buffer from short pieces, or pieces from one buffer, of which `length` bytes are there. */
static size_t tcp_gather(uint8_t *whole, const struct iovec *pieces, int count) {
  size_t length = 0;
  for (int i = 0; i < count; length += pieces[i++].iov_len)
    memcpy(whole + length, pieces[i].iov_base, pieces[i].iov_len);
  return length;
}

static void tcp_scatter(const struct iovec *pieces, const uint8_t *whole, size_t length) {
  for (size_t part; length > 0; whole += part, length -= part, pieces++) {
    part = length < pieces->iov_len ? length : pieces->iov_len;
    memcpy(pieces->iov_base, whole, part);
  }
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

static ssize_t tcp_receive(ring_link *link, const struct iovec *pieces, int count) {
  uint8_t whole[TCP_SHORT];
  size_t length = tcp_length(pieces, count);
  if (count == 1) return tcp_result(recv(link->fd, pieces->iov_base, pieces->iov_len, 0));
  if (length <= sizeof whole) {
    ssize_t moved = tcp_result(recv(link->fd, whole, length, 0));
    if (moved > 0) tcp_scatter(pieces, whole, (size_t)moved);
    return moved;
  }
  struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
  return tcp_result(recvmsg(link->fd, &message, 0));
}

static ssize_t tcp_peek(ring_link *link, void *bytes, size_t length) {
  return tcp_result(recv(link->fd, bytes, length, MSG_PEEK));
}

/* Errors wake every sleeper: to ask for them only keeps the link in the poll. */
static short tcp_arm(ring_link *link, short events) {
  (void)link;
  return events != 0 ? events : POLLERR;
}

static void tcp_finish(ring_link *link) {
  shutdown(link->fd, SHUT_WR);
}

static void tcp_close(ring_link *link) {
  ring_socket_close(&link->fd);
  free(link);
}

static const ring_link_ops tcp_ops = {"tcp",   tcp_send,   tcp_receive, tcp_peek,
                                      tcp_arm, tcp_finish, tcp_close};

ring_link *ring_link_tcp(int fd) {
  ring_link *link = malloc(sizeof *link);
  if (link == NULL) return NULL;
  *link = (ring_link){.ops = &tcp_ops, .fd = fd};
  ring_socket_tune(fd);
  return link;
}
