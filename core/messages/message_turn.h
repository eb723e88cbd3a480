/* SPDX-License-Identifier: Apache-2.0
 *
 * A turn of the mover: opens links, sends packets, receives frames, and handles each frame.
 */
#ifndef RING_MESSAGES_MESSAGE_TURN_H
#define RING_MESSAGES_MESSAGE_TURN_H

#include "messages/protocol.h"

/* Takes a turn on all links, or only on those that the last sleep found ready and those with packets. */
void ring_message_turn(ring_messages *messages, bool all);

#endif
