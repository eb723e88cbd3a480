/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits with a choice that users do not have.
 */
#ifndef RING_API_SPLIT_H
#define RING_API_SPLIT_H

#include "api/comm_state.h"

/* As ring_comm_split, with the backend native: for messages and devices, whose child has all ranks. */
ring_status ring_comm_split_native(ring_comm *comm, ring_comm **child);

#endif
