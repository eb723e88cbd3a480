/* SPDX-License-Identifier: Apache-2.0
 *
 * The links of the servers: a barrier with rank 0 that opens them, and reports whether each rank has a server. A
 * call timeout and the hooks of the communicator end the barrier.
 */
#ifndef RING_PMI_PMI_LINKS_H
#define RING_PMI_PMI_LINKS_H

#include "sparkring.h"

/* *code: 0, or the errno for which this rank has no server. After RING_OK all ranks have the same code: that of the
 * lowest rank whose code was not 0, and *fault is this rank. Else ring_messages_error explains. Collective. */
ring_status ring_pmi_open_links(ring_messages *messages, int *code, int *fault);

#endif
