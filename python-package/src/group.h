/* SPDX-License-Identifier: Apache-2.0
 *
 * Many arrays in one allreduce, reduce_scatter, allgather or broadcast, as methods of the communicator.
 */
#ifndef SPARKRING_GROUP_H
#define SPARKRING_GROUP_H

#include "call.h"

CALL_DECLARE(group, allreduce_group)
CALL_DECLARE(group, reduce_scatter_group)
CALL_DECLARE(group, allgather_group)
CALL_DECLARE(group, broadcast_group)

#endif
