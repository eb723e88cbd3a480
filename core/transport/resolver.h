/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookups: where a host is. The system's resolver may take a quarter of a minute to say that a name
 * server does not answer, and cannot be interrupted; so names that may be asked of one are looked up by
 * a thread, and whoever waits asks again between the other things that a wait does. A thread that
 * nobody waits for any more ends when the resolver does.
 */
#ifndef RING_TRANSPORT_RESOLVER_H
#define RING_TRANSPORT_RESOLVER_H

#include "transport/socket.h"

typedef struct ring_resolver ring_resolver;

typedef enum ring_resolver_answer {
  RING_RESOLVER_PENDING, /* ask again */
  RING_RESOLVER_FOUND,
  RING_RESOLVER_UNKNOWN, /* there is no such name; it may be told of later */
  RING_RESOLVER_SILENT,  /* nobody could tell for now */
  RING_RESOLVER_FAILED   /* resolved->lack says what this host lacks */
} ring_resolver_answer;

/* Begins a lookup where *lookup is NULL, and asks for what it has found; *lookup is NULL again after
 * any other answer than PENDING. Takes 20 ms at most. *reason says why there is no address. */
ring_resolver_answer ring_resolver_ask(ring_resolver **resolver, const char *host, uint16_t port,
                                       ring_resolved *resolved, const char **reason);

/* Nobody will ask any more. */
void ring_resolver_drop(ring_resolver **resolver);

#endif
