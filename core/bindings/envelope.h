/* SPDX-License-Identifier: Apache-2.0
 *
 * An envelope: an object of R or Python on its way to another rank, as bytes. The last 16 bytes are the
 * trailer: 8 letters of kind, and the length of the whole as a double, which R has, too. The trailer is at
 * the end because neither pickle nor unserialize() reads there. Neither language takes the other's
 * objects for its own, and R none of a machine of another byte order.
 *
 * A rank that cannot encode its object sends an envelope with the text of its error. The calls of all
 * ranks stay in step, and the receivers of the object raise that error.
 */
#ifndef RING_BINDINGS_ENVELOPE_H
#define RING_BINDINGS_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  RING_ENVELOPE_TRAILER_BYTES = 16,
  RING_ENVELOPE_FAILURE_BYTES = 2048, /* of the longest envelope of a failure */
  RING_ENVELOPE_TEXT_BYTES = 2304     /* of ring_envelope_refuse() */
};

/* X(name, "kind"). R_LITTLE and R_BIG are bytes of serialize() in the byte order of the machine. */
#define RING_ENVELOPE_KIND_MAP(X)                                                                  \
  X(PICKLE, "ring-py5")                                                                            \
  X(R_LITTLE, "ring-R3<")                                                                          \
  X(R_BIG, "ring-R3>")                                                                             \
  X(FAILURE, "ring-err")

typedef enum ring_envelope_kind {
#define RING_ENVELOPE_KIND_ENUM(name, text) RING_ENVELOPE_##name,
  RING_ENVELOPE_KIND_MAP(RING_ENVELOPE_KIND_ENUM)
#undef RING_ENVELOPE_KIND_ENUM
} ring_envelope_kind;

/* The kind of serialize() on this machine. */
ring_envelope_kind ring_envelope_kind_of_r(void);

/* Writes the trailer of an envelope whose object has `length` bytes. */
void ring_envelope_seal(uint8_t *trailer, ring_envelope_kind kind, size_t length);

/* Writes an envelope with the text of an error, of which it keeps 500 characters. Returns its length, at
 * most RING_ENVELOPE_FAILURE_BYTES. */
size_t ring_envelope_fail(uint8_t *envelope, const char *text, size_t length);

/* Finds where each of `count` envelopes begins, and where the last one ends: starts[count]. Goes from the
 * last to the first, because each has its length at its end. False when the bytes are no such envelopes. */
bool ring_envelope_split(const uint8_t *bytes, size_t length, size_t count, size_t *starts);

/* True when this envelope is of the kind that the caller reads. Else writes to text[] why the object of
 * `rank` cannot be read. */
bool ring_envelope_check(const uint8_t *envelope, size_t length, ring_envelope_kind reads, int rank,
                         char *text);

#endif
