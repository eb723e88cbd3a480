/* SPDX-License-Identifier: Apache-2.0
 *
 * Envelopes: the bytes of a trailer, several envelopes cut apart, and what is none.
 */
#include "bindings/envelope.h"

#include <math.h>

#include "check.h"

/* Appends an envelope with an object of `length` bytes; returns the new end. */
static size_t append(uint8_t *bytes, size_t end, ring_envelope_kind kind, size_t length) {
  memset(bytes + end, 'x', length);
  ring_envelope_seal(bytes + end + length, kind, length);
  return end + length + RING_ENVELOPE_TRAILER_BYTES;
}

static void test_trailer(void) {
  uint8_t trailer[RING_ENVELOPE_TRAILER_BYTES];
  ring_envelope_seal(trailer, RING_ENVELOPE_PICKLE, 84);
  CHECK(memcmp(trailer, "ring-py5\0\0\0\0\0\0\x59\x40", sizeof trailer) == 0); /* 100.0 */
  ring_envelope_seal(trailer, RING_ENVELOPE_R_BIG, 0);
  CHECK(memcmp(trailer, "ring-R3>\0\0\0\0\0\0\x30\x40", sizeof trailer) == 0); /* 16.0 */
}

static void test_split(void) {
  uint8_t bytes[256];
  size_t starts[4], end = append(bytes, 0, RING_ENVELOPE_PICKLE, 5);
  end = append(bytes, end, RING_ENVELOPE_R_LITTLE, 0);
  end = append(bytes, end, RING_ENVELOPE_FAILURE, 70);
  CHECK(ring_envelope_split(bytes, end, 3, starts));
  CHECK_INT(starts[0], 0);
  CHECK_INT(starts[1], 21);
  CHECK_INT(starts[2], 37);
  CHECK_INT(starts[3], 123);
  CHECK(!ring_envelope_split(bytes, end, 2, starts));
  CHECK(!ring_envelope_split(bytes + 1, end - 1, 3, starts));
  CHECK(!ring_envelope_split(bytes, end - 1, 3, starts));
}

static void check_refused(const char *kind, double length) {
  uint8_t bytes[RING_ENVELOPE_TRAILER_BYTES];
  size_t starts[2];
  memcpy(bytes, kind, 8);
  memcpy(bytes + 8, &length, 8);
  CHECK(!ring_envelope_split(bytes, sizeof bytes, 1, starts));
}

static void test_no_envelopes(void) {
  size_t starts[2];
  CHECK(!ring_envelope_split(NULL, 0, 1, starts));
  CHECK(!ring_envelope_split((const uint8_t *)"short", 5, 1, starts));
  check_refused("anything", 16);
  check_refused("ring-py5", 99);
  check_refused("ring-py5", 8);
  check_refused("ring-py5", -1);
  check_refused("ring-py5", NAN);
  check_refused("ring-py5", 1e300);
}

static void test_failure(void) {
  uint8_t envelope[RING_ENVELOPE_FAILURE_BYTES];
  char text[RING_ENVELOPE_TEXT_BYTES], longer[4000];
  size_t length = ring_envelope_fail(envelope, "no memory", 9);
  CHECK_INT(length, 32);
  CHECK(!ring_envelope_check(envelope, length, RING_ENVELOPE_PICKLE, 3, text));
  CHECK(strcmp(text, "rank 3 could not send its object: no memory") == 0);
  for (int i = 0; i < 1000; i++) memcpy(longer + 4 * i, "\xf0\x9f\x92\x8d", 4);
  length = ring_envelope_fail(envelope, longer, sizeof longer);
  CHECK_INT(length, 2016);
  CHECK(!ring_envelope_check(envelope, length, RING_ENVELOPE_R_LITTLE, 3, text));
  CHECK_INT(strlen(text), strlen("rank 3 could not send its object: ") + 2000);
  memset(longer, 0x80, sizeof longer); /* no UTF-8 */
  CHECK_INT(ring_envelope_fail(envelope, longer, sizeof longer), 2016);
  CHECK_INT(ring_envelope_fail(envelope, NULL, 0), 16);
}

static void test_outsiders(void) {
  uint8_t bytes[RING_ENVELOPE_TRAILER_BYTES];
  char text[RING_ENVELOPE_TEXT_BYTES];
  size_t length = append(bytes, 0, RING_ENVELOPE_PICKLE, 0);
  CHECK(ring_envelope_check(bytes, length, RING_ENVELOPE_PICKLE, 1, text));
  CHECK(!ring_envelope_check(bytes, length, ring_envelope_kind_of_r(), 1, text));
  CHECK_CONTAINS(text, "the object of rank 1 comes from Python, and R cannot read it: send arrays");
  append(bytes, 0, RING_ENVELOPE_R_BIG, 0);
  CHECK(!ring_envelope_check(bytes, length, RING_ENVELOPE_PICKLE, 1, text));
  CHECK_CONTAINS(text, "comes from R, and Python cannot read it");
  CHECK(!ring_envelope_check(bytes, length, RING_ENVELOPE_R_LITTLE, 1, text));
  CHECK_CONTAINS(text, "another version of sparkring, or a machine of another byte order, and R");
  memcpy(bytes, "ring-py9", 8);
  CHECK(!ring_envelope_check(bytes, length, RING_ENVELOPE_PICKLE, 1, text));
  CHECK_CONTAINS(text, "comes from another version of sparkring, and Python cannot read it");
}

int main(void) {
  RUN(test_trailer);
  RUN(test_split);
  RUN(test_no_envelopes);
  RUN(test_failure);
  RUN(test_outsiders);
  return 0;
}
