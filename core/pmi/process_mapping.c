/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/process_mapping.h"

#include <stdio.h>

/* Hosts with consecutive numbers that have as many consecutive ranks each. */
typedef struct process_block {
  int first, hosts, ranks;
} process_block;

/* The consecutive ranks from *rank on that share a host, which become past. */
static process_block process_mapping_host(const int *nodes, int size, int *rank) {
  process_block block = {.first = nodes[*rank], .hosts = 1};
  for (; *rank < size && nodes[*rank] == block.first; ++*rank) block.ranks++;
  return block;
}

/* Appends text. False where it does not fit. */
static bool process_mapping_write(const process_block *block, char *text, size_t capacity,
                                  size_t *length) {
  int written = snprintf(text + *length, capacity - *length, ",(%d,%d,%d)", block->first,
                         block->hosts, block->ranks);
  if (written < 0 || (size_t)written >= capacity - *length) return false;
  *length += (size_t)written;
  return true;
}

bool ring_process_mapping(const int *nodes, int size, char *text, size_t capacity) {
  int rank = 0, begun = snprintf(text, capacity, "(vector");
  if (begun < 0 || (size_t)begun >= capacity) return false;
  size_t length = (size_t)begun;
  process_block block = process_mapping_host(nodes, size, &rank);
  while (rank < size) {
    process_block next = process_mapping_host(nodes, size, &rank);
    if (next.first == block.first + block.hosts && next.ranks == block.ranks) {
      block.hosts++;
      continue;
    }
    if (!process_mapping_write(&block, text, capacity, &length)) return false;
    block = next;
  }
  if (!process_mapping_write(&block, text, capacity, &length)) return false;
  int ended = snprintf(text + length, capacity - length, ")");
  return (size_t)ended < capacity - length;
}
