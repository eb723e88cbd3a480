/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of the kernels. fuse.cu compiles it for GPUs; the tests compile it for the host, under sanitizers. Before
 * this file is included come fuse_items.h and, for the kind of processor,
 *   FUSE_KERNEL(name)            begins the function; its parameter FUSE_ALL is a ring_fuse_items, and `scale` a float
 *   FUSE_BLOCK, FUSE_BLOCKS, FUSE_THREAD, FUSE_THREADS   where it runs
 *   FUSE_F16, FUSE_BF16, FUSE_TO_F16, FUSE_TO_BF16       convert the bits of halves
 */
#define FUSE_UNROLL 4
#define FUSE_FLOAT(x) (x)
#define FUSE_SAME(x) (x)
#define FUSE_FACTOR_FUSE_FLOAT scale
#define FUSE_FACTOR_FUSE_F16 scale
#define FUSE_FACTOR_FUSE_BF16 scale
#define FUSE_FACTOR_FUSE_SAME 1

#define FUSE_DEFINE(name, from_type, to_type, width, piece_length, widen, narrow)                  \
  typedef struct __attribute__((aligned(width * sizeof(from_type)))) fuse_from_##name {            \
    from_type v[width];                                                                            \
  } fuse_from_##name;                                                                              \
  typedef struct __attribute__((aligned(width * sizeof(to_type)))) fuse_to_##name {                \
    to_type v[width];                                                                              \
  } fuse_to_##name;                                                                                \
  FUSE_KERNEL(name) {                                                                              \
    (void)scale; /* bytes are copied */                                                            \
    for (uint32_t piece = FUSE_BLOCK; piece < FUSE_ALL.first[FUSE_ALL.count];                      \
         piece += FUSE_BLOCKS) {                                                                   \
      uint32_t low = 0, high = FUSE_ALL.count; /* the item that has this piece */                  \
      while (high - low > 1) {                                                                     \
        uint32_t middle = (low + high) / 2;                                                        \
        if (FUSE_ALL.first[middle] <= piece)                                                       \
          low = middle;                                                                            \
        else                                                                                       \
          high = middle;                                                                           \
      }                                                                                            \
      uint64_t at = (uint64_t)(piece - FUSE_ALL.first[low]) * (piece_length);                      \
      uint64_t left = FUSE_ALL.item[low].count - at;                                               \
      uint32_t n = left < (piece_length) ? (uint32_t)left : (piece_length), done = 0;              \
      const from_type *from = (const from_type *)FUSE_ALL.item[low].from + at;                     \
      to_type *to = (to_type *)FUSE_ALL.item[low].to + at;                                         \
      if ((uintptr_t)from % sizeof(fuse_from_##name) == 0 &&                                       \
          (uintptr_t)to % sizeof(fuse_to_##name) == 0) {                                           \
        uint32_t stride = FUSE_UNROLL * FUSE_THREADS;                                              \
        uint32_t whole = n / (width * stride) * stride; /* vectors */                              \
        for (uint32_t i = FUSE_THREAD; i < whole; i += stride) {                                   \
          fuse_from_##name in[FUSE_UNROLL];                                                        \
          FUSE_UNROLLED for (int u = 0; u < FUSE_UNROLL; u++) in[u] =                              \
              ((const fuse_from_##name *)from)[i + u * FUSE_THREADS];                              \
          FUSE_UNROLLED for (int u = 0; u < FUSE_UNROLL; u++) {                                    \
            fuse_to_##name out;                                                                    \
            FUSE_UNROLLED for (int k = 0; k < width; k++) out.v[k] =                               \
                narrow(widen(in[u].v[k]) * FUSE_FACTOR_##widen);                                   \
            ((fuse_to_##name *)to)[i + u * FUSE_THREADS] = out;                                    \
          }                                                                                        \
        }                                                                                          \
        uint32_t vectors = n / width;                                                              \
        for (uint32_t i = whole + FUSE_THREAD; i < vectors; i += FUSE_THREADS) {                   \
          fuse_from_##name one = ((const fuse_from_##name *)from)[i];                              \
          fuse_to_##name out;                                                                      \
          FUSE_UNROLLED for (int k = 0; k < width; k++) out.v[k] =                                 \
              narrow(widen(one.v[k]) * FUSE_FACTOR_##widen);                                       \
          ((fuse_to_##name *)to)[i] = out;                                                         \
        }                                                                                          \
        done = vectors * width;                                                                    \
      }                                                                                            \
      for (uint32_t i = done + FUSE_THREAD; i < n; i += FUSE_THREADS)                              \
        to[i] = narrow(widen(from[i]) * FUSE_FACTOR_##widen);                                      \
    }                                                                                              \
  }
RING_FUSE_MAP(FUSE_DEFINE)
