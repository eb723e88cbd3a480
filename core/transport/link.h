/* SPDX-License-Identifier: Apache-2.0
 *
 * A link moves bytes between two ranks, in order, in both directions, and never blocks. Every
 * transport is one file that implements ring_link_ops. Links know no frames and no collectives.
 *
 * send, receive and peek return the bytes moved (more than 0), 0 when nothing can move now, or
 * -errno. -EPIPE: the peer has ended the link.
 */
#ifndef RING_TRANSPORT_LINK_H
#define RING_TRANSPORT_LINK_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "auth/secret.h"
#include "sparkring.h"

typedef struct ring_link ring_link;

typedef struct ring_link_ops {
  const char *name; /* static storage: it outlives the link */
  ssize_t (*send)(ring_link *link, const struct iovec *pieces, int count);
  ssize_t (*receive)(ring_link *link, const struct iovec *pieces, int count);
  ssize_t (*peek)(ring_link *link, void *bytes, size_t length);
  /* Returns the events to poll the fd for, so that a sleeper wakes when one of `events` (POLLIN,
   * POLLOUT; 0: a break of the link only) can happen. 0 leaves the link out of the poll. Must be
   * called right before the poll. A ready fd means no more than that it is time to try. */
  short (*arm)(ring_link *link, short events);
  void (*finish)(ring_link *link); /* ends the sending side */
  void (*close)(ring_link *link);  /* and frees the link */
  /* Milliseconds for which the peer's host has not confirmed bytes sent; 0 when nothing is
   * unconfirmed, or the system does not report it. */
  uint32_t (*silence)(ring_link *link);
  /* Whether all bytes sent have arrived at the peer's host; true when the system does not report it. */
  bool (*arrived)(ring_link *link);
  bool unchecked; /* damage on the way may go undetected: frames need a check of their own */
} ring_link_ops;

struct ring_link {
  const ring_link_ops *ops;
  int fd; /* to poll for the events that arm returns */
};

/* A link over a connected socket, which it then owns. NULL without memory. */
ring_link *ring_link_tcp(int fd);

/* A link over several connected sockets, 2 to RING_CONNECTIONS_MAX (auth/handshake.h), in the same
 * order at both ends. It then owns them. NULL without memory or descriptors, or without
 * ring_platform_watcher: the sockets stay the caller's. */
ring_link *ring_link_multi_tcp(const int *fds, int count);

/* A link that encrypts the bytes of another link, which it then owns, with a key that both ends
 * have. One end is the connecting side. NULL without memory: the other link stays the caller's. A
 * peer without the key, or bytes changed on the way, end the link with -EPROTO. */
ring_link *ring_link_tls(ring_link *under, bool connecting, const ring_secret *key);

/* Shared memory of one direction of a link: two frames of the engine, so that a rank can be a frame
 * ahead. 64 KiB to 1 MiB measured alike, but more is better where ranks share processors. */
#define RING_PIPE_BYTES (4096 + 512 * 1024)

/* A link through shared memory. The connected stream socket, which the link then owns, wakes
 * sleepers and shows the end of the peer. `out` and `in` are RING_PIPE_BYTES of zeroed memory each,
 * on page boundaries; the peer has mapped them, too, with the directions swapped. They must stay
 * mapped until the link is closed. NULL without memory. */
ring_link *ring_link_shm_pipe(int fd, void *out, void *in);

#endif
