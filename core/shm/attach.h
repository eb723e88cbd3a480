/* SPDX-License-Identifier: Apache-2.0
 *
 * How a shm group forms, in three steps. Before the first barrier of the communicator the first
 * rank of a host creates the memory and listens on a local socket. After the barrier the other
 * ranks of the host fetch its descriptor there. Then each rank reports to all ranks whether it has
 * the memory; the group forms if all ranks of the host have it, else none of them uses it. So ranks
 * prove that they are on one host.
 *
 * A connection to the local socket begins with the handshake of all links: only ranks of this job
 * get the memory.
 */
#ifndef RING_SHM_ATTACH_H
#define RING_SHM_ATTACH_H

#include "shm/control_block.h"

/* On the first rank of a host: creates the memory and serves it from peers->shm_acceptor. */
void ring_shm_invite(ring_shm *shm, ring_peers *peers);

/* On the other ranks: fetches the memory. Whether this rank has it. */
bool ring_shm_fetch(ring_shm *shm, ring_peers *peers, ring_wait *wait);

/* Forms the group, or releases the memory; has[r]: rank r has the memory of its host. `service`
 * runs in all waits of the group from now on, and has to live as long. */
ring_status ring_shm_settle(ring_shm *shm, ring_peers *peers, const uint8_t *has,
                            const ring_wait_service *service, const ring_wait *wait,
                            ring_error *error);

/* Leaves the group and releases the memory: the other ranks see that this rank's place is free. */
void ring_shm_fini(ring_shm *shm);

#endif
