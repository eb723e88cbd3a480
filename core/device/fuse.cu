// SPDX-License-Identifier: Apache-2.0
//
// The kernels that pack, unpack, convert and multiply. scripts/ptx compiles this file into fuse_ptx.h.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "fuse_items.h"

// Threads of a block are known, so that a block's loops have constant strides.
#define FUSE_KERNEL(name)                                                                          \
  extern "C" __global__ void __launch_bounds__(RING_FUSE_THREADS)                                  \
      ring_fuse_##name(const ring_fuse_items all, float scale)
#define FUSE_ALL all
#define FUSE_BLOCK blockIdx.x
#define FUSE_BLOCKS gridDim.x
#define FUSE_THREAD threadIdx.x
#define FUSE_THREADS RING_FUSE_THREADS
#define FUSE_UNROLLED _Pragma("unroll")
#define FUSE_F16(x) __half2float(__ushort_as_half(x))
#define FUSE_BF16(x) __bfloat162float(__ushort_as_bfloat16(x))
#define FUSE_TO_F16(x) __half_as_ushort(__float2half_rn(x))
#define FUSE_TO_BF16(x) __bfloat16_as_ushort(__float2bfloat16_rn(x))
#include "fuse_body.h"
