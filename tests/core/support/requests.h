/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests, as the tests start and finish them.
 */
#ifndef RING_REQUESTS_H
#define RING_REQUESTS_H

#include "sparkring.h"

/* Waits for it, checks that all went well, and frees it. */
void finish(ring_request *request);

/* Waits for it, checks how and why it failed, and frees it. */
void finish_badly(ring_request *request, ring_status status, int rank, const char *text);

void start_barriers(ring_comm *comm, ring_request **requests, int count);

#endif
