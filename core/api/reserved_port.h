/* SPDX-License-Identifier: Apache-2.0
 *
 * Ports that a communicator reserves for servers of frameworks. A framework needs the ports of all
 * ranks before any rank listens. So each rank binds a port, sends its number to the other ranks,
 * and releases it once the framework has it.
 *
 * A reserved port is a socket that is bound and does not listen: an early connection is refused, as
 * at a free port. Two ranks of a host never get the same port. Forked children inherit the socket
 * until they free the communicator or execute another program. A framework that cannot share the port
 * binds it after its release: so it is one that no other process gets by chance.
 */
#ifndef RING_API_RESERVED_PORT_H
#define RING_API_RESERVED_PORT_H

#include "api/comm_state.h"

/* Releases all of them. */
void ring_reserved_ports_fini(ring_comm *comm);

#endif
