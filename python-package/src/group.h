/* SPDX-License-Identifier: Apache-2.0
 *
 * Many arrays in one allreduce, as methods of the communicator.
 */
#ifndef SPARKRING_GROUP_H
#define SPARKRING_GROUP_H

#include "call.h"

CALL_DECLARE(group, allreduce_group)

#endif
