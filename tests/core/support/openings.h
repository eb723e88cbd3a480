/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens that must succeed, and opens that must fail with a certain error.
 */
#ifndef RING_OPENINGS_H
#define RING_OPENINGS_H

#include "sparkring.h"

/* Checks that the communicator works: the sum over all ranks of 1 << rank. */
void check_ring(ring_comm *comm);

/* Opens, checks and closes. */
void open_check_close(const ring_options *options);

/* Checks that opening fails, and that the message contains `text`. Returns the rank at fault. */
int expect_failure(const ring_options *options, ring_status status, const char *text);

#endif
