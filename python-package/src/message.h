/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between two ranks, as methods of the communicator.
 */
#ifndef SPARKRING_MESSAGE_H
#define SPARKRING_MESSAGE_H

#include "call.h"

CALL_DECLARE(message, send)
CALL_DECLARE(message, recv)

#endif
