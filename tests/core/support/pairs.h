/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairs of links, of every transport: both ends in one process, or one of them in a forked one.
 */
#ifndef RING_PAIRS_H
#define RING_PAIRS_H

#include <stdbool.h>

#include "transport/link.h"

#define WAKE_MS 30000 /* a sleeper that nobody woke by then never would have been */

typedef enum transport {
  TCP,
  CONNECTIONS,
  TLS,
  TLS_OVER_CONNECTIONS,
  SHM,
  SHM_OVER_TCP,
  TRANSPORTS
} transport;

#define PAIR_CONNECTIONS 3 /* of a pair with connections */

typedef struct pair {
  transport kind;
  int fd[2][PAIR_CONNECTIONS]; /* one each, but for connections */
  uint8_t *pipe[2];            /* [i] is written by side i */
} pair;

pair pair_make(transport kind);
ring_link *pair_link(const pair *of, int side);
void pair_free(pair *of);
/* Whether a record of TLS can be half sent; how many sockets a side has. */
bool pair_encrypts(transport kind);
int pair_sockets(transport kind);

/* Both ends in this process. */
void pair_open(pair *of, transport kind, ring_link *links[2]);

void pair_close(pair *of, ring_link *links[2]);

/* Side 1 in a forked process, which runs `peer` with it; returns side 0. */
ring_link *pair_fork(pair *of, transport kind, void (*peer)(ring_link *), pid_t *child);

/* Waits for the child, which ends with the status `expected`. */
void pair_join(pair *of, ring_link *link, pid_t child, int expected);

ssize_t link_send(ring_link *link, const void *bytes, size_t length);
ssize_t link_receive(ring_link *link, void *bytes, size_t length);

/* What poll reports within `milliseconds`. */
short link_poll(ring_link *link, short events, int milliseconds);

void link_sleep(ring_link *link, short events);

/* Receives until the peer has ended; returns the bytes. */
size_t link_drain(ring_link *link, uint8_t *bytes, size_t capacity);

/* Sends until nothing more fits; returns the bytes. */
size_t link_fill(ring_link *link, const uint8_t *bytes, size_t length);

/* Sends until the peer has ended. */
void link_send_out(ring_link *link);

#endif
