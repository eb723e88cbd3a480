/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

ring_status ring_layout_init(ring_layout *layout, int size) {
  *layout = (ring_layout){.size = size, .inside = RING_TIER_LOOPBACK};
  layout->nodes = calloc(2 * (size_t)size, sizeof *layout->nodes);
  if (layout->nodes == NULL) return RING_NO_MEMORY;
  layout->ranks = layout->nodes + size;
  return RING_OK;
}

void ring_layout_fini(ring_layout *layout) {
  free(layout->nodes);
  *layout = (ring_layout){0};
}

/* `ranks` holds, until the hosts are counted, the number of the host with a label, plus one. */
static void layout_number(ring_layout *layout) {
  for (int rank = 0; rank < layout->size; rank++) {
    int *number = &layout->ranks[layout->nodes[rank]];
    if (*number == 0) *number = ++layout->hosts;
    layout->nodes[rank] = *number - 1;
  }
}

static void layout_leave(ring_layout *layout) {
  const int *nodes = layout->nodes;
  for (int rank = 0; rank < layout->size; rank++) {
    int next = rank + 1 < layout->size ? rank + 1 : 0;
    if (nodes[next] == nodes[rank]) continue;
    int leaving = ++layout->ranks[nodes[rank]];
    if (leaving > layout->leaving) layout->leaving = leaving;
  }
}

void ring_layout_survey(ring_layout *layout) {
  size_t bytes = (size_t)layout->size * sizeof *layout->ranks;
  layout_number(layout);
  memset(layout->ranks, 0, bytes);
  layout_leave(layout);
  memset(layout->ranks, 0, bytes);
  for (int rank = 0; rank < layout->size; rank++) layout->ranks[layout->nodes[rank]]++;
  layout->smallest = layout->size;
  for (int host = 0; host < layout->hosts; host++) {
    int ranks = layout->ranks[host];
    if (ranks < layout->smallest) layout->smallest = ranks;
    if (ranks > layout->largest) layout->largest = ranks;
  }
}

void ring_layout_share(ring_layout *layout, const uint8_t *has) {
  layout->inside = RING_TIER_SHM;
  for (int rank = 0; rank < layout->size; rank++)
    if (layout->ranks[layout->nodes[rank]] > 1 && has[rank] == 0)
      layout->inside = RING_TIER_LOOPBACK;
}

bool ring_layout_has_group(const ring_layout *layout, int most) {
  for (int host = 0; host < layout->hosts; host++)
    if (layout->ranks[host] > 1 && layout->ranks[host] <= most) return true;
  return false;
}

bool ring_layout_is_nested(const ring_layout *layout) {
  return layout != NULL && layout->hosts > 1 && layout->largest > 1;
}

uint64_t ring_layout_digest(const ring_layout *layout, uint64_t digest) {
  for (int rank = 0; rank < layout->size; rank++)
    digest = bytes_digest(digest, (uint64_t)layout->nodes[rank]);
  return digest;
}
