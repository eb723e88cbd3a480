/* SPDX-License-Identifier: Apache-2.0
 *
 * A link moves bytes between two ranks, in order, both ways, without ever blocking. Every transport
 * is one file that offers these verbs in this order. Links know no frames and no collectives.
 *
 * send, receive and peek return the bytes moved (more than 0), 0 when nothing can move now, or
 * -errno; -EPIPE means that the other side has ended the link.
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
  /* What to poll the fd for, so that a sleeper wakes as soon as one of `events` (POLLIN, POLLOUT; 0
   * for a breaking link alone) can happen; the answer 0 leaves the link out of the poll. To be asked
   * right before the poll, whose result then says no more than that it is time to try. */
  short (*arm)(ring_link *link, short events);
  void (*finish)(ring_link *link); /* tells the peer that nothing more will be sent */
  void (*close)(ring_link *link);  /* and frees it */
  /* For how many milliseconds the peer's host has owed an answer to what was sent; 0 where it owes
   * none, or nobody can tell. */
  uint32_t (*silence)(ring_link *link);
  /* Whether all that was sent has arrived at the peer's host; true where nobody can tell. */
  bool (*arrived)(ring_link *link);
  bool unchecked; /* damage on the way may go unnoticed: frames need a check of their own */
} ring_link_ops;

struct ring_link {
  const ring_link_ops *ops;
  int fd; /* to sleep on, for what arm says */
};

/* A link over a connected socket, which it then owns. NULL when out of memory. */
ring_link *ring_link_tcp(int fd);

/* A link over several connected sockets, 2 to RING_CONNECTIONS_MAX, in the same order at both ends, which it
 * then owns. NULL when the system lacks memory or descriptors, or has no ring_platform_watcher; the
 * sockets are the caller's then. */
ring_link *ring_link_multi_tcp(const int *fds, int count);

/* What another link carries, encrypted with a key that both ends have; one of them is the connecting side. Owns
 * that link. NULL when out of memory; the other link is the caller's then. A peer without the key, or
 * bytes that it did not send, end the link with -EPROTO. */
ring_link *ring_link_tls(ring_link *under, bool connecting, const ring_secret *key);

/* Shared memory of one direction of a link: two frames of the engine, so that a rank can be a frame
 * ahead. 64 KiB to 1 MiB measured alike, except where ranks share processors: more is better there.
 */
#define RING_PIPE_BYTES (4096 + 512 * 1024)

/* A link through shared memory over a connected stream socket, which it then owns: the socket wakes
 * sleepers and tells when the peer has ended. `out` and `in` are RING_PIPE_BYTES of zeroed memory
 * each, on page boundaries, which the peer has mapped, too, the other way round; they have to stay
 * until the link is closed. NULL when out of memory. */
ring_link *ring_link_shm_pipe(int fd, void *out, void *in);

#endif
