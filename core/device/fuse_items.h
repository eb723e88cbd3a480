/* SPDX-License-Identifier: Apache-2.0
 *
 * The argument of a kernel that packs and unpacks: up to RING_FUSE_ITEMS runs of elements, in pieces of the same
 * length, so that long and short ones load all blocks alike. The struct and a factor fit the 4 KiB of a kernel's
 * parameters. C and CUDA read this file.
 */
#ifndef RING_DEVICE_FUSE_ITEMS_H
#define RING_DEVICE_FUSE_ITEMS_H

#include <stdint.h>

#define RING_FUSE_ITEMS 144
#define RING_FUSE_THREADS 256

typedef struct ring_fuse_item {
  const void *from;
  void *to;
  uint64_t count;
} ring_fuse_item;

typedef struct ring_fuse_items {
  ring_fuse_item item[RING_FUSE_ITEMS];
  uint32_t first[RING_FUSE_ITEMS + 1]; /* the first piece of each item, and the number of all */
  uint32_t count;
} ring_fuse_items;

/* X(kernel, type from, type to, elements of 16 bytes of the wider, elements of a piece, conversion from, to).
 * Halves are kept as their bits. */
#define RING_FUSE_MAP(X)                                                                           \
  X(copy, uint8_t, uint8_t, 16, 32768, FUSE_SAME, FUSE_SAME)                                       \
  X(f32_f32, float, float, 4, 8192, FUSE_FLOAT, FUSE_FLOAT)                                        \
  X(f32_f16, float, uint16_t, 4, 8192, FUSE_FLOAT, FUSE_TO_F16)                                    \
  X(f32_bf16, float, uint16_t, 4, 8192, FUSE_FLOAT, FUSE_TO_BF16)                                  \
  X(f16_f32, uint16_t, float, 4, 8192, FUSE_F16, FUSE_FLOAT)                                       \
  X(bf16_f32, uint16_t, float, 4, 8192, FUSE_BF16, FUSE_FLOAT)                                     \
  X(f16_f16, uint16_t, uint16_t, 8, 8192, FUSE_F16, FUSE_TO_F16)                                   \
  X(bf16_bf16, uint16_t, uint16_t, 8, 8192, FUSE_BF16, FUSE_TO_BF16)

#endif
