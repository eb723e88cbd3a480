/* SPDX-License-Identifier: Apache-2.0 */
#include "buffers.h"

#include "check.h"

void *buffer_alloc(ring_comm *comm, bool arena, size_t bytes) {
  void *memory = NULL;
  if (!arena) return calloc(bytes + 1, 1);
  CHECK_INT(ring_alloc(comm, bytes, &memory), RING_OK);
  memset(memory, 0, bytes);
  return memory;
}

void buffer_free(void *buffer, bool arena) {
  if (arena)
    ring_free(buffer);
  else
    free(buffer);
}
