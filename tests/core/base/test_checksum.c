/* SPDX-License-Identifier: Apache-2.0
 *
 * The check of frames: published values, that all ways to compute it agree, and that damage shows.
 */
#include "base/checksum.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

/* RFC 3720, B.4, and the usual check value. */
static void test_published_values(void) {
  uint8_t bytes[32];
  CHECK_INT(ring_checksum("123456789", 9), 0xe3069283);
  CHECK_INT(ring_checksum("", 0), 0);
  memset(bytes, 0, sizeof bytes);
  CHECK_INT(ring_checksum(bytes, sizeof bytes), 0x8a9136aa);
  memset(bytes, 0xff, sizeof bytes);
  CHECK_INT(ring_checksum(bytes, sizeof bytes), 0x62a8ab43);
  for (uint8_t i = 0; i < 32; i++) bytes[i] = i;
  CHECK_INT(ring_checksum(bytes, sizeof bytes), 0x46dd794e);
}

static uint8_t *noise(size_t length) {
  uint8_t *bytes = malloc(length);
  uint32_t random = 2463534242u;
  for (size_t i = 0; i < length; i++) {
    random = random * 1664525u + 1013904223u;
    bytes[i] = (uint8_t)(random >> 24);
  }
  return bytes;
}

/* Every length around blocks, long ones, and every alignment. */
static void test_all_ways_agree(void) {
  size_t most = 100000;
  uint8_t *bytes = noise(most + 64);
  for (size_t length = 0; length <= most; length += length < 2500 ? 1 : 977)
    for (int way = 0; ring_checksum_way_of(way) != NULL; way++)
      CHECK_INT(ring_checksum_way_of(way)(bytes + length % 64, length),
                ring_checksum(bytes + length % 64, length));
  free(bytes);
}

/* One wrong bit anywhere. */
static void test_damage_shows(void) {
  static const size_t lengths[] = {1, 36, 512, 5000, 65537};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    size_t length = lengths[i];
    uint8_t *bytes = noise(length);
    uint32_t right = ring_checksum(bytes, length);
    for (size_t bit = 0; bit < 8 * length; bit += length > 5000 ? 37 : 1) {
      bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
      CHECK(ring_checksum(bytes, length) != right);
      bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    free(bytes);
  }
}

int main(void) {
  RUN(test_published_values);
  RUN(test_all_ways_agree);
  RUN(test_damage_shows);
  return 0;
}
