/* SPDX-License-Identifier: Apache-2.0
 *
 * The connection to the lead: descriptor 0. The lead reads at all times, so sending waits for no program.
 */
#ifndef RING_PMIX_CONNECTION_H
#define RING_PMIX_CONNECTION_H

#include "pmi/pmix_message.h"

/* Sends a message, from any thread. */
void ring_pmix_connection_send(char kind, const ring_pmix_message *message);

/* Waits for a message, whose bytes are valid until the next call. False: the lead has ended, or ends the server. The
 * process exits when bytes are no message, or without memory. */
bool ring_pmix_connection_receive(char *kind, ring_pmix_message *message);

/* Zeroed memory. The process exits without it. */
void *ring_pmix_connection_allocate(size_t bytes);

/* Exits: the lead reports that its server has ended. The reason goes to the standard error. */
_Noreturn void ring_pmix_connection_fail(const char *reason);

#endif
