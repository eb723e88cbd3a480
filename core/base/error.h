/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors: one function fills a `ring_error`, so that every failure has a status, the rank at fault,
 * the errno and a sentence for the user. It returns the status, so that callers can write
 * `return ring_error_set(...)`.
 */
#ifndef RING_BASE_ERROR_H
#define RING_BASE_ERROR_H

#include "sparkring.h"

/* Fills *error (NULL is allowed) and returns status. rank: the rank at fault or -1.
 * system_errno: 0, or a code whose text is appended. */
ring_status ring_error_set(ring_error *error, ring_status status, int rank, int system_errno,
                           const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Rank `rank`, which is this rank, is out of memory. Returns RING_NO_MEMORY. */
ring_status ring_error_no_memory(ring_error *error, int rank);

/* Peers timed out waiting for rank `rank`, which is this rank. `text` is their error, "" when it is not
 * known. Returns RING_ABORTED. */
ring_status ring_error_missed(ring_error *error, int rank, const char *text);

#endif
