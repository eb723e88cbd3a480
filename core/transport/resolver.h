/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookups of host names. The system's resolver may block for 15 s when a name server does not
 * answer, and cannot be interrupted. So a thread looks up names that may need a name server, and
 * the waiting thread polls it. A lookup that was dropped ends when the system's resolver returns.
 */
#ifndef RING_TRANSPORT_RESOLVER_H
#define RING_TRANSPORT_RESOLVER_H

#include "transport/socket.h"

typedef struct ring_resolver ring_resolver;

typedef enum ring_resolver_answer {
  RING_RESOLVER_PENDING, /* call again */
  RING_RESOLVER_FOUND,
  RING_RESOLVER_UNKNOWN, /* there is no such name now; a new host may get one */
  RING_RESOLVER_SILENT,  /* no name server answered */
  RING_RESOLVER_FAILED   /* resolved->lack: errno of what this host lacks */
} ring_resolver_answer;

/* Begins a lookup when *resolver is NULL, and polls it for at most 20 ms. After any answer but
 * PENDING *resolver is NULL again. *reason: why there is no address. */
ring_resolver_answer ring_resolver_ask(ring_resolver **resolver, const char *host, uint16_t port,
                                       ring_resolved *resolved, const char **reason);

/* Drops a lookup. */
void ring_resolver_drop(ring_resolver **resolver);

#endif
