/* SPDX-License-Identifier: Apache-2.0 */
#include "bindings/envelope.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

#define ENVELOPE_KIND_BYTES 8
#define ENVELOPE_ALIGNMENT 16
#define ENVELOPE_CHARACTERS 500 /* of an error, 4 bytes each at most */

#define ENVELOPE_KIND_TEXT(name, text) text,
static const char *const envelope_kinds[] = {RING_ENVELOPE_KIND_MAP(ENVELOPE_KIND_TEXT)};
#undef ENVELOPE_KIND_TEXT

ring_envelope_kind ring_envelope_kind_of_r(void) {
  const uint16_t one = 1;
  return *(const uint8_t *)&one == 1 ? RING_ENVELOPE_R_LITTLE : RING_ENVELOPE_R_BIG;
}

void ring_envelope_seal(uint8_t *trailer, ring_envelope_kind kind, size_t length) {
  double whole = (double)(length + RING_ENVELOPE_TRAILER_BYTES);
  uint64_t bits;
  memcpy(&bits, &whole, sizeof bits);
  memcpy(trailer, envelope_kinds[kind], ENVELOPE_KIND_BYTES);
  bytes_put(trailer + ENVELOPE_KIND_BYTES, bits, sizeof bits);
}

/* The bytes of the first characters of a text in UTF-8. */
static size_t envelope_cut(const char *text, size_t length) {
  size_t characters = 0, most = (size_t)ENVELOPE_CHARACTERS * 4;
  for (size_t i = 0; i < length; i++) {
    if (((uint8_t)text[i] & 0xc0) != 0x80) characters++;
    if (characters > ENVELOPE_CHARACTERS || i == most) return i;
  }
  return length;
}

size_t ring_envelope_fail(uint8_t *envelope, const char *text, size_t length) {
  size_t kept = envelope_cut(text, length);
  size_t body = (kept + ENVELOPE_ALIGNMENT - 1) / ENVELOPE_ALIGNMENT * ENVELOPE_ALIGNMENT;
  memset(envelope, 0, body);
  if (kept > 0) memcpy(envelope, text, kept);
  ring_envelope_seal(envelope + body, RING_ENVELOPE_FAILURE, body);
  return body + RING_ENVELOPE_TRAILER_BYTES;
}

/* The length of the envelope that ends at `end`; 0 when none does. */
static size_t envelope_length(const uint8_t *bytes, size_t end) {
  if (end < RING_ENVELOPE_TRAILER_BYTES) return 0;
  const uint8_t *trailer = bytes + end - RING_ENVELOPE_TRAILER_BYTES;
  if (memcmp(trailer, "ring-", 5) != 0) return 0;
  const uint8_t *at = trailer + ENVELOPE_KIND_BYTES;
  uint64_t bits = bytes_get(&at, sizeof bits);
  double length;
  memcpy(&length, &bits, sizeof length);
  bool fits = length >= RING_ENVELOPE_TRAILER_BYTES && length <= (double)end; /* and is a number */
  return fits ? (size_t)length : 0;
}

bool ring_envelope_split(const uint8_t *bytes, size_t length, size_t count, size_t *starts) {
  starts[count] = length;
  for (size_t i = count; i-- > 0;) {
    size_t own = envelope_length(bytes, starts[i + 1]);
    if (own == 0) return false;
    starts[i] = starts[i + 1] - own;
  }
  return starts[0] == 0;
}

/* The text of the error without the zeros behind it. */
static void envelope_describe_failure(const uint8_t *envelope, size_t body, int rank, char *text) {
  while (body > 0 && envelope[body - 1] == 0) body--;
  body = envelope_cut((const char *)envelope, body);
  snprintf(text, RING_ENVELOPE_TEXT_BYTES, "rank %d could not send its object: %.*s", rank,
           (int)body, (const char *)envelope);
}

static void envelope_describe_foreign(const char *kind, bool reads_python, int rank, char *text) {
  const char *source = "another version of sparkring";
  if (!reads_python) source = "another version of sparkring, or a machine of another byte order";
  if (reads_python && memcmp(kind, "ring-R", 6) == 0) source = "R";
  if (!reads_python && memcmp(kind, "ring-py", 7) == 0) source = "Python";
  snprintf(text, RING_ENVELOPE_TEXT_BYTES,
           "the object of rank %d comes from %s, and %s cannot read it: send arrays instead, which "
           "both can",
           rank, source, reads_python ? "Python" : "R");
}

bool ring_envelope_check(const uint8_t *envelope, size_t length, ring_envelope_kind reads, int rank,
                         char *text) {
  size_t body = length - RING_ENVELOPE_TRAILER_BYTES;
  const char *kind = (const char *)envelope + body;
  if (memcmp(kind, envelope_kinds[reads], ENVELOPE_KIND_BYTES) == 0) return true;
  if (memcmp(kind, envelope_kinds[RING_ENVELOPE_FAILURE], ENVELOPE_KIND_BYTES) == 0)
    envelope_describe_failure(envelope, body, rank, text);
  else
    envelope_describe_foreign(kind, reads == RING_ENVELOPE_PICKLE, rank, text);
  return false;
}
