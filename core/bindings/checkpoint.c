/* SPDX-License-Identifier: Apache-2.0 */
#include "bindings/checkpoint.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define CHECKPOINT_KEPT 2 /* states in a directory */
#define CHECKPOINT_PREFIX "state-"
#define CHECKPOINT_DIGITS 12
#define CHECKPOINT_DIGEST_BYTES 32
#define CHECKPOINT_MAGIC "sparkring state\n" /* without the zero at its end */

_Static_assert(CHECKPOINT_DIGEST_BYTES + sizeof CHECKPOINT_MAGIC - 1 ==
                   RING_CHECKPOINT_TRAILER_BYTES,
               "a trailer is a digest and the magic");

void ring_checkpoint_name(int64_t number, char *name) {
  snprintf(name, RING_CHECKPOINT_NAME_BYTES, CHECKPOINT_PREFIX "%0*" PRId64, CHECKPOINT_DIGITS,
           number);
}

int64_t ring_checkpoint_number(const char *name) {
  size_t prefix = sizeof CHECKPOINT_PREFIX - 1;
  if (strncmp(name, CHECKPOINT_PREFIX, prefix) != 0) return -1;
  const char *digits = name + prefix;
  if (strlen(digits) != CHECKPOINT_DIGITS || strspn(digits, "0123456789") != CHECKPOINT_DIGITS)
    return -1;
  int64_t number = 0;
  for (; *digits != '\0'; digits++) number = number * 10 + (*digits - '0');
  return number;
}

bool ring_checkpoint_is_old(int64_t number, int64_t newest) {
  return number <= newest - CHECKPOINT_KEPT;
}

bool ring_checkpoint_seal(const void *state, size_t length, uint8_t *trailer) {
  memcpy(trailer + CHECKPOINT_DIGEST_BYTES, CHECKPOINT_MAGIC, sizeof CHECKPOINT_MAGIC - 1);
  return EVP_Digest(state, length, trailer, NULL, EVP_sha256(), NULL) == 1;
}

bool ring_checkpoint_check(const void *file, size_t length, size_t *state) {
  uint8_t trailer[RING_CHECKPOINT_TRAILER_BYTES];
  if (length < sizeof trailer) return false;
  *state = length - sizeof trailer;
  return ring_checkpoint_seal(file, *state, trailer) &&
         memcmp((const uint8_t *)file + *state, trailer, sizeof trailer) == 0;
}
