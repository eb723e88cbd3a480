/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that pack, unpack, convert and multiply runs of elements. kernels.c makes text of the macros, for NVRTC;
 * the stub of CUDA in the tests makes functions of them, for the host. So they use no header and no type of one.
 * Before RING_KERNEL_DEFINE is used come
 *   RING_KERNEL(name)           begins the function; its parameters are `all`, a ring_kernel_runs, and `scale`, a float
 *   RING_KERNEL_BLOCK, _BLOCKS, _THREAD    where it runs
 *   ring_f16, ring_bf16, ring_to_f16, ring_to_bf16    functions that convert the bits of halves
 *
 * A kernel takes up to RING_KERNEL_RUNS runs, in pieces of the same length, so that long and short runs load all blocks
 * alike. ring_kernel_runs and a factor fit the 4 KiB of a kernel's parameters.
 */
#ifndef RING_DEVICE_KERNELS_SOURCE_H
#define RING_DEVICE_KERNELS_SOURCE_H

#define RING_KERNEL_RUNS 144
#define RING_KERNEL_THREADS 256

#define RING_KERNEL_TYPES                                                                          \
  typedef struct ring_kernel_run {                                                                 \
    const void *from;                                                                              \
    void *to;                                                                                      \
    unsigned long long count;                                                                      \
  } ring_kernel_run;                                                                               \
  typedef struct ring_kernel_runs {                                                                \
    ring_kernel_run run[RING_KERNEL_RUNS];                                                         \
    unsigned first[RING_KERNEL_RUNS + 1]; /* piece of each run, and the number of all */           \
    unsigned count;                                                                                \
  } ring_kernel_runs;

/* X(kernel, type from, type to, elements of 16 bytes of the wider, elements of a piece, conversion from, to, factor).
 * Halves are kept as their bits. */
#define RING_KERNEL_MAP(X)                                                                         \
  X(copy, unsigned char, unsigned char, 16, 32768, , , 1)                                          \
  X(f32_f32, float, float, 4, 8192, , , scale)                                                     \
  X(f32_f16, float, unsigned short, 4, 8192, , ring_to_f16, scale)                                 \
  X(f32_bf16, float, unsigned short, 4, 8192, , ring_to_bf16, scale)                               \
  X(f16_f32, unsigned short, float, 4, 8192, ring_f16, , scale)                                    \
  X(bf16_f32, unsigned short, float, 4, 8192, ring_bf16, , scale)                                  \
  X(f16_f16, unsigned short, unsigned short, 8, 8192, ring_f16, ring_to_f16, scale)                \
  X(bf16_bf16, unsigned short, unsigned short, 8, 8192, ring_bf16, ring_to_bf16, scale)

/* One thread converts vectors of `width` elements where memory is aligned for them, and the elements that are left. */
#define RING_KERNEL_DEFINE(name, from_type, to_type, width, piece_length, widen, narrow, factor)   \
  typedef struct __attribute__((aligned(width * sizeof(from_type)))) ring_in_##name {              \
    from_type v[width];                                                                            \
  } ring_in_##name;                                                                                \
  typedef struct __attribute__((aligned(width * sizeof(to_type)))) ring_out_##name {               \
    to_type v[width];                                                                              \
  } ring_out_##name;                                                                               \
  RING_KERNEL(name) {                                                                              \
    (void)scale; /* bytes are copied */                                                            \
    for (unsigned piece = RING_KERNEL_BLOCK; piece < all.first[all.count];                         \
         piece += RING_KERNEL_BLOCKS) {                                                            \
      unsigned low = 0, high = all.count; /* the run that has this piece */                        \
      while (high - low > 1) {                                                                     \
        unsigned middle = (low + high) / 2;                                                        \
        if (all.first[middle] <= piece)                                                            \
          low = middle;                                                                            \
        else                                                                                       \
          high = middle;                                                                           \
      }                                                                                            \
      unsigned long long at = (unsigned long long)(piece - all.first[low]) * (piece_length);       \
      unsigned long long left = all.run[low].count - at;                                           \
      unsigned n = left < (piece_length) ? (unsigned)left : (piece_length), vectors = 0;           \
      const from_type *from = (const from_type *)all.run[low].from + at;                           \
      to_type *to = (to_type *)all.run[low].to + at;                                               \
      if ((unsigned long long)from % sizeof(ring_in_##name) == 0 &&                                \
          (unsigned long long)to % sizeof(ring_out_##name) == 0)                                   \
        vectors = n / width;                                                                       \
      for (unsigned i = RING_KERNEL_THREAD; i < vectors; i += RING_KERNEL_THREADS) {               \
        ring_in_##name in = ((const ring_in_##name *)from)[i];                                     \
        ring_out_##name out;                                                                       \
        for (int k = 0; k < width; k++) out.v[k] = narrow(widen(in.v[k]) * factor);                \
        ((ring_out_##name *)to)[i] = out;                                                          \
      }                                                                                            \
      for (unsigned i = vectors * width + RING_KERNEL_THREAD; i < n; i += RING_KERNEL_THREADS)     \
        to[i] = narrow(widen(from[i]) * factor);                                                   \
    }                                                                                              \
  }

#endif
