/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookups: where a host is. The system's resolver may take a quarter of a minute to say that a name
 * server does not answer, and cannot be interrupted; so names that may be asked of one are looked up by
 * a thread, and whoever waits asks again between the other things that a wait does. A thread that
 * nobody waits for any more ends when the resolver does.
 */
#ifndef RING_LOOKUP_H
#define RING_LOOKUP_H

#include "socket.h"

typedef struct ring_lookup ring_lookup;

typedef enum ring_lookup_answer {
  RING_LOOKUP_PENDING, /* ask again */
  RING_LOOKUP_FOUND,
  RING_LOOKUP_UNKNOWN, /* there is no such name; it may be told of later */
  RING_LOOKUP_SILENT,  /* nobody could tell for now */
  RING_LOOKUP_FAILED   /* resolved->lack says what this host lacks */
} ring_lookup_answer;

/* Begins a lookup where *lookup is NULL, and asks for what it has found; *lookup is NULL again after
 * any other answer than PENDING. Takes 20 ms at most. *reason says why there is no address. */
ring_lookup_answer ring_lookup_ask(ring_lookup **lookup, const char *host, uint16_t port,
                                   ring_resolved *resolved, const char **reason);

/* Nobody will ask any more. */
void ring_lookup_drop(ring_lookup **lookup);

#endif
