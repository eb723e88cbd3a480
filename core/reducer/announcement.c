/* SPDX-License-Identifier: Apache-2.0 */
#include "reducer/announcement.h"

#include <string.h>

void ring_announcement_encode(const ring_announcement *announcement, uint8_t *to) {
  to = bytes_put(to, announcement->name_length, 4);
  to = bytes_put(to, announcement->length, 4);
  memcpy(to, announcement->name, announcement->name_length);
  memcpy(to + announcement->name_length, announcement->description, announcement->length);
}

bool ring_announcement_next(bytes_cursor *from, int size, ring_announcement *announcement) {
  ring_tensor tensor;
  if (from->left == 0) return false;
  announcement->name_length = bytes_cursor_get(from, 4);
  announcement->length = bytes_cursor_get(from, 4);
  announcement->name = (const char *)bytes_cursor_take(from, announcement->name_length);
  announcement->description = bytes_cursor_take(from, announcement->length);
  if (from->bad || announcement->name_length == 0 ||
      memchr(announcement->name, '\0', announcement->name_length) != NULL ||
      !ring_tensor_decode(announcement->description, announcement->length, size, &tensor))
    from->bad = true;
  return !from->bad;
}
