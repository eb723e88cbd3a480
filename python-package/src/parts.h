/* SPDX-License-Identifier: Apache-2.0
 *
 * The variable-length collectives, as methods of the communicator.
 */
#ifndef SPARKRING_PARTS_H
#define SPARKRING_PARTS_H

#include "call.h"

CALL_DECLARE(parts, allgatherv)
CALL_DECLARE(parts, gatherv)
CALL_DECLARE(parts, scatterv)
CALL_DECLARE(parts, alltoallv)
CALL_DECLARE(parts, reduce_scatterv)

#endif
