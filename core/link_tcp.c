/* SPDX-License-Identifier: Apache-2.0
 *
 * The TCP transport: header and payload leave in one system call and arrive in one, straight to and
 * from the caller's buffers. Socket buffers are left to the kernel, which sizes them best.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "link.h"
#include "socket.h"

static ssize_t tcp_result(ssize_t moved) {
  if (moved > 0) return moved;
  if (moved == 0) return -EPIPE;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -errno;
}

static ssize_t tcp_send(ring_link *link, const struct iovec *pieces, int count) {
  struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
  return tcp_result(sendmsg(link->fd, &message, MSG_NOSIGNAL));
}

static ssize_t tcp_receive(ring_link *link, const struct iovec *pieces, int count) {
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
