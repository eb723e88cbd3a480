/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of the stub of CUDA: core/device/fuse_body.h, run by a loop over blocks and threads. The PTX is not run;
 * only the names of its kernels are looked up.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "cuda.h"
#include "device/fuse_items.h"

enum {
  INVALID_VALUE = 1,
  INVALID_CONTEXT = 201,
  NO_COMPILER = 221,
  NOT_FOUND = 500,
  LAUNCH_FAILED = 719,
  CAPTURE_UNSUPPORTED = 900
};

typedef struct kernel {
  int number;
  unsigned blocks;
  ring_fuse_items items;
  float scale;
} kernel;

static _Thread_local uint32_t at_block, at_blocks, at_thread;
#define FUSE_KERNEL(name) static void fuse_##name(const ring_fuse_items *all, float scale)
#define FUSE_ALL (*all)
#define FUSE_BLOCK at_block
#define FUSE_BLOCKS at_blocks
#define FUSE_THREAD at_thread
#define FUSE_THREADS RING_FUSE_THREADS
#define FUSE_UNROLLED
#define FUSE_F16(x) ring_float16_to_float32(x)
#define FUSE_BF16(x) ring_bfloat16_to_float32(x)
#define FUSE_TO_F16(x) ring_float16_from_float32(x)
#define FUSE_TO_BF16(x) ring_bfloat16_from_float32(x)
#include "device/fuse_body.h"

typedef void (*fuse_function)(const ring_fuse_items *all, float scale);
#define KERNEL_NAME(name, from, to, width, piece, widen, narrow) "ring_fuse_" #name,
#define KERNEL_FUNCTION(name, from, to, width, piece, widen, narrow) fuse_##name,
static const char *const names[] = {RING_FUSE_MAP(KERNEL_NAME)};
static const fuse_function functions[] = {RING_FUSE_MAP(KERNEL_FUNCTION)};
enum { KERNELS = sizeof names / sizeof names[0] };

struct CUmod_st {
  char *text;
};

struct CUfunc_st {
  int number;
};
static struct CUfunc_st kernels[KERNELS];

static void run_kernel(void *arg) {
  kernel *of = arg;
  at_blocks = of->blocks;
  for (at_block = 0; at_block < at_blocks; at_block++)
    for (at_thread = 0; at_thread < RING_FUSE_THREADS; at_thread++)
      functions[of->number](&of->items, of->scale);
  free(of);
}

ring_cuda_result cuModuleLoadData(ring_cuda_module *module, const void *text) {
  if (!stub_cuda_has_context()) return INVALID_CONTEXT;
  if (!stub_cuda_may_disturb()) return CAPTURE_UNSUPPORTED;
  if (stub_cuda_fails("module")) return NO_COMPILER;
  if (strncmp(text, ".version 7.0\n.target sm_60\n", 27) != 0) return INVALID_VALUE;
  *module = malloc(sizeof **module);
  if (*module == NULL) abort();
  (*module)->text = strdup(text);
  stub_cuda_count(1);
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuModuleUnload(ring_cuda_module module) {
  if (!stub_cuda_has_context()) return INVALID_CONTEXT;
  free(module->text);
  free(module);
  stub_cuda_count(-1);
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuModuleGetFunction(ring_cuda_function *function, ring_cuda_module module,
                                     const char *name) {
  char entry[64];
  snprintf(entry, sizeof entry, ".visible .entry %s(", name);
  if (strstr(module->text, entry) == NULL) return NOT_FOUND;
  for (int i = 0; i < KERNELS; i++) {
    if (strcmp(names[i], name) != 0) continue;
    kernels[i].number = i;
    *function = &kernels[i];
    return RING_CUDA_SUCCESS;
  }
  return NOT_FOUND;
}

ring_cuda_result cuLaunchKernel(ring_cuda_function function, unsigned blocks, unsigned y,
                                unsigned z, unsigned threads, unsigned thread_y, unsigned thread_z,
                                unsigned shared, ring_cuda_stream stream, void **parameters,
                                void **extra) {
  if (!stub_cuda_has_context()) return INVALID_CONTEXT;
  if (stub_cuda_fails("launch")) return LAUNCH_FAILED;
  if (y * z * thread_y * thread_z != 1 || threads != RING_FUSE_THREADS || shared != 0 ||
      blocks == 0 || extra != NULL)
    return INVALID_VALUE;
  kernel *of = malloc(sizeof *of);
  if (of == NULL) abort();
  of->number = function->number;
  of->blocks = blocks;
  memcpy(&of->items, parameters[0], sizeof of->items);
  memcpy(&of->scale, parameters[1], sizeof of->scale);
  for (uint32_t i = 0; i < of->items.count; i++) {
    of->items.item[i].from = stub_cuda_host(of->items.item[i].from);
    of->items.item[i].to = stub_cuda_host(of->items.item[i].to);
  }
  return cuLaunchHostFunc(stream, run_kernel, of);
}
