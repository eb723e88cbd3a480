/* SPDX-License-Identifier: Apache-2.0
 *
 * The house: namespaces of the soak's own, where the kernel lets it have them, so that whatever is
 * found in it has been left by the ranks, and nobody else's: sockets of any kind, files in /dev/shm
 * and in TMPDIR, processes without a parent. Connections that wait out their time after an orderly
 * end (TIME_WAIT) belong to nobody and are not counted.
 */
#ifndef SOAK_HOUSE_H
#define SOAK_HOUSE_H

#include <stdbool.h>

typedef struct house {
  bool own;
  char folder[64]; /* TMPDIR */
} house;

/* What is in it. */
typedef struct house_things {
  int internet, local;   /* sockets */
  int shared, temporary; /* files */
} house_things;

/* Moves in, before the first child is born; reports if there is no house to be had. */
bool house_enter(house *of);

house_things house_count(const house *of);

/* Waits a little until there is no more than before: what was killed is cleared away by the kernel
 * at its leisure. Prints what there is too much of. */
bool house_is_clean(const house *of, const house_things *before);

/* Waits for children of ranks, which become those of the soak, and removes TMPDIR. False when there
 * was such a child, or something in TMPDIR. */
bool house_leave(house *of);

#endif
