/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of the stub of CUDA: those of core/device/kernels_source.h, compiled for the host and run by a loop over
 * blocks and threads. A module is what the stub of NVRTC makes: a first line, and the text of the kernels, in which
 * only their names are looked up.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "cuda.h"
#include "device/kernels_source.h"

enum {
  INVALID_VALUE = 1,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  NO_COMPILER = 221,
  NOT_FOUND = 500,
  LAUNCH_FAILED = 719,
  CAPTURE_UNSUPPORTED = 900
};

RING_KERNEL_TYPES

typedef struct kernel {
  int number;
  unsigned blocks;
  ring_kernel_runs runs;
  float scale;
} kernel;

static _Thread_local unsigned at_block, at_blocks, at_thread;
#define RING_KERNEL(name) static void run_##name(ring_kernel_runs all, float scale)
#define RING_KERNEL_BLOCK at_block
#define RING_KERNEL_BLOCKS at_blocks
#define RING_KERNEL_THREAD at_thread
#define ring_f16 ring_float16_to_float32
#define ring_bf16 ring_bfloat16_to_float32
#define ring_to_f16 ring_float16_from_float32
#define ring_to_bf16 ring_bfloat16_from_float32
RING_KERNEL_MAP(RING_KERNEL_DEFINE)

typedef void (*kernel_function)(ring_kernel_runs all, float scale);
#define KERNEL_NAME(name, ...) "ring_kernel_" #name,
#define KERNEL_FUNCTION(name, ...) run_##name,
static const char *const names[] = {RING_KERNEL_MAP(KERNEL_NAME)};
static const kernel_function functions[] = {RING_KERNEL_MAP(KERNEL_FUNCTION)};
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
    for (at_thread = 0; at_thread < RING_KERNEL_THREADS; at_thread++)
      functions[of->number](of->runs, of->scale);
  free(of);
}

ring_cuda_result cuModuleLoadData(ring_cuda_module *module, const void *text) {
  if (!stub_cuda_has_context()) return INVALID_CONTEXT;
  if (!stub_cuda_may_disturb()) return CAPTURE_UNSUPPORTED;
  if (stub_cuda_fails("module")) return NO_COMPILER;
  if (strncmp(text, STUB_CUDA_CUBIN, strlen(STUB_CUDA_CUBIN)) != 0 &&
      strncmp(text, STUB_CUDA_PTX, strlen(STUB_CUDA_PTX)) != 0)
    return INVALID_IMAGE;
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
  char entry[96];
  snprintf(entry, sizeof entry, " %s(const ring_kernel_runs all", name);
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
  if (y * z * thread_y * thread_z != 1 || threads != RING_KERNEL_THREADS || shared != 0 ||
      blocks == 0 || extra != NULL)
    return INVALID_VALUE;
  kernel *of = malloc(sizeof *of);
  if (of == NULL) abort();
  of->number = function->number;
  of->blocks = blocks;
  memcpy(&of->runs, parameters[0], sizeof of->runs);
  memcpy(&of->scale, parameters[1], sizeof of->scale);
  for (uint32_t i = 0; i < of->runs.count; i++) {
    of->runs.run[i].from = stub_cuda_host(of->runs.run[i].from);
    of->runs.run[i].to = stub_cuda_host(of->runs.run[i].to);
  }
  return cuLaunchHostFunc(stream, run_kernel, of);
}
