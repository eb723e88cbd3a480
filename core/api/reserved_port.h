/* SPDX-License-Identifier: Apache-2.0
 *
 * Ports that a communicator holds for servers of others. A framework is told where its ranks listen
 * before any of them does, so each rank binds a port first, tells the others, and lets go of it when
 * the framework has it. Held is a socket that is bound and never listens: whoever connects before the
 * server is there is refused, as at a port that nobody has. It was bound to nobody else, so two ranks
 * of a host never hold the same one. Forked children have it, too, until they free the communicator
 * or execute another program.
 */
#ifndef RING_API_RESERVED_PORT_H
#define RING_API_RESERVED_PORT_H

#include "api/comm_state.h"

/* Releases all of them. */
void ring_reserved_ports_fini(ring_comm *comm);

#endif
