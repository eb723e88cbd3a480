/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings of all ranks. They travel as bytes, not as objects: they need no token, and R and Python read
 * the same bytes.
 */
#ifndef RING_BINDINGS_STRINGS_H
#define RING_BINDINGS_STRINGS_H

#include "sparkring.h"

typedef struct ring_string {
  const char *bytes; /* UTF-8, without a zero at the end */
  size_t length;
} ring_string;

typedef struct ring_strings {
  ring_string *strings; /* of all ranks, in rank order */
  size_t *counts;       /* of each rank */
  char *memory;         /* the bytes of all strings */
} ring_strings;

/* Gathers the strings of all ranks on all ranks. A rank has at most 16,777,216 strings and 256 MiB of them.
 * Collective; `count` may differ between ranks. Free `all` with ring_strings_free, after a failure, too.
 * RING_NO_MEMORY aborts the communicator, because the other ranks are in the same call. RING_MISMATCH ends it, too,
 * when a rank has sent lengths that cannot be. */
ring_status ring_strings_allgather(ring_comm *comm, const ring_string *mine, size_t count,
                                   ring_strings *all);

void ring_strings_free(ring_strings *all);

#endif
