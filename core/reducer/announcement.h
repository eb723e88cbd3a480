/* SPDX-License-Identifier: Apache-2.0
 *
 * An announcement: a name and the description of what a rank has submitted under it, as the ranks exchange them.
 *
 *   length of the name u32, length of the description u32, name without its zero, description (tensor.h)
 */
#ifndef RING_REDUCER_ANNOUNCEMENT_H
#define RING_REDUCER_ANNOUNCEMENT_H

#include "base/bytes.h"
#include "reducer/tensor.h"

enum { ANNOUNCEMENT_HEAD = 8 };

/* The most bytes that a rank announces in a cycle, and that names and descriptions of a reducer take. */
#define ANNOUNCEMENT_MOST ((size_t)256 << 20)

typedef struct ring_announcement {
  const char *name; /* without a zero at its end */
  size_t name_length;
  const uint8_t *description;
  size_t length;
} ring_announcement;

/* Bytes of an announcement. */
static inline size_t announcement_bytes(const ring_announcement *announcement) {
  return ANNOUNCEMENT_HEAD + announcement->name_length + announcement->length;
}

void ring_announcement_encode(const ring_announcement *announcement, uint8_t *to);

/* Reads the next announcement of a rank, which points into the bytes. False at the end, or with from->bad set: the
 * bytes are not an announcement that a rank of a communicator of `size` ranks makes. */
bool ring_announcement_next(bytes_cursor *from, int size, ring_announcement *announcement);

#endif
