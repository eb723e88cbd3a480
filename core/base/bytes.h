/* SPDX-License-Identifier: Apache-2.0
 *
 * Integers on the wire: little-endian, whatever the host. Each put and get returns the position
 * behind what it wrote or read, so that a message is packed and unpacked as a list of calls.
 *
 * Bytes of variable length from another rank are read through a cursor, which never reads behind their end.
 */
#ifndef RING_BASE_BYTES_H
#define RING_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint8_t *bytes_put(uint8_t *to, uint64_t value, int width) {
  for (int i = 0; i < width; i++) to[i] = (uint8_t)(value >> (8 * i));
  return to + width;
}

static inline uint64_t bytes_get(const uint8_t **from, int width) {
  uint64_t value = 0;
  for (int i = 0; i < width; i++) value |= (uint64_t)(*from)[i] << (8 * i);
  *from += width;
  return value;
}

/* The bytes that are left. A read of more bytes sets `bad`, and every later read fails, too. */
typedef struct bytes_cursor {
  const uint8_t *at;
  size_t left;
  bool bad;
} bytes_cursor;

/* The next `length` bytes; NULL: there are not as many. */
static inline const uint8_t *bytes_cursor_take(bytes_cursor *from, size_t length) {
  if (from->bad || length > from->left) {
    from->bad = true;
    return NULL;
  }
  const uint8_t *taken = from->at;
  from->at += length;
  from->left -= length;
  return taken;
}

/* The next integer; 0: there are not as many bytes. */
static inline uint64_t bytes_cursor_get(bytes_cursor *from, int width) {
  const uint8_t *taken = bytes_cursor_take(from, (size_t)width);
  return taken != NULL ? bytes_get(&taken, width) : 0;
}

/* FNV-1a, continued by a value; begins with RING_DIGEST_EMPTY of sparkring.h. */
static inline uint64_t bytes_digest(uint64_t digest, uint64_t value) {
  for (int i = 0; i < 8; i++)
    digest = (digest ^ (value >> (8 * i) & 0xff)) * UINT64_C(1099511628211);
  return digest;
}

#endif
