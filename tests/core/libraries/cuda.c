/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for CUDA's driver, where tests have none: the parts that the core uses, on the memory of the host. A
 * stream is a thread. Memory of the GPU has an address that the process cannot touch, so that a test crashes where
 * the core reads it; copies and kernels use another mapping of it. cuda_streams.c has streams and events,
 * cuda_kernels.c the kernels.
 *
 * It differs from CUDA: the default stream is that of all threads and does not wait for other streams, copies never
 * overlap kernels of a stream, and nothing is known of speed.
 *
 * A stream that captures a graph may not be used at all: that ends the process. While a stream captures, a thread that
 * is not in relaxed mode may not query events, allocate or load, as in CUDA's global mode.
 *
 * CUDA_STUB_GPUS: how many GPUs there are; else 1. CUDA_STUB_FAILS: "init", "register", "launch", "copy", "module",
 * "memory" or "shutdown". Where memory cannot be registered, copies block.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda.h"

enum { GPUS = 8, DEPTH = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int live;

int stub_cuda_fails(const char *what) {
  const char *set = getenv("CUDA_STUB_FAILS");
  return set != NULL && strcmp(set, what) == 0;
}

void stub_cuda_count(int change) {
  __atomic_fetch_add(&live, change, __ATOMIC_SEQ_CST);
}

int stub_cuda_live(void) {
  return __atomic_load_n(&live, __ATOMIC_SEQ_CST);
}

/* ---- GPUs and contexts --------------------------------------------------------------------- */

struct CUctx_st {
  int retained;
};
static struct CUctx_st contexts[GPUS], foreign[GPUS]; /* the primary ones, and others */
static _Thread_local ring_cuda_context stack[DEPTH];
static _Thread_local int depth;

static int gpus(void) {
  const char *set = getenv("CUDA_STUB_GPUS");
  return set != NULL ? atoi(set) : 1;
}

static ring_cuda_gpu current_gpu(void) {
  ring_cuda_context current = stack[depth - 1];
  int is_foreign = current >= foreign && current < foreign + GPUS;
  return (int)(current - (is_foreign ? foreign : contexts));
}

int stub_cuda_has_context(void) {
  return depth > 0;
}

ring_cuda_result cuInit(unsigned flags) {
  return stub_cuda_fails("init") || flags != 0 ? STUB_CUDA_NO_GPU : RING_CUDA_SUCCESS;
}

ring_cuda_result cuDriverGetVersion(int *version) {
  *version = 12080;
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuGetErrorString(ring_cuda_result result, const char **text) {
  *text =
      result == STUB_CUDA_NO_GPU ? "no CUDA-capable device is detected" : "the stub of CUDA fails";
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuDeviceGetCount(int *count) {
  *count = gpus();
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuDeviceGet(ring_cuda_gpu *gpu, int number) {
  *gpu = number;
  return number < gpus() ? RING_CUDA_SUCCESS : STUB_CUDA_INVALID_GPU;
}

ring_cuda_result cuDeviceGetName(char *name, int length, ring_cuda_gpu gpu) {
  snprintf(name, (size_t)length, "stub %d", gpu);
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuDeviceGetAttribute(int *value, ring_cuda_attribute attribute,
                                      ring_cuda_gpu gpu) {
  if (gpu >= gpus()) return STUB_CUDA_INVALID_VALUE;
  if (attribute == RING_CUDA_MULTIPROCESSOR_COUNT) *value = 2;
  if (attribute == RING_CUDA_CAPABILITY_MAJOR) *value = 9;
  if (attribute == RING_CUDA_CAPABILITY_MINOR) *value = 0;
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuDevicePrimaryCtxRetain(ring_cuda_context *context, ring_cuda_gpu gpu) {
  if (gpu >= gpus()) return STUB_CUDA_INVALID_GPU;
  stub_cuda_count(1);
  __atomic_fetch_add(&contexts[gpu].retained, 1, __ATOMIC_SEQ_CST);
  *context = &contexts[gpu];
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuDevicePrimaryCtxRelease_v2(ring_cuda_gpu gpu) {
  stub_cuda_count(-1);
  return __atomic_fetch_sub(&contexts[gpu].retained, 1, __ATOMIC_SEQ_CST) > 0
             ? RING_CUDA_SUCCESS
             : STUB_CUDA_INVALID_CONTEXT;
}

ring_cuda_result cuCtxGetCurrent(ring_cuda_context *context) {
  *context = depth > 0 ? stack[depth - 1] : NULL;
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuCtxGetDevice(ring_cuda_gpu *gpu) {
  NEED_CONTEXT;
  *gpu = current_gpu();
  return RING_CUDA_SUCCESS;
}

void stub_cuda_use_foreign(int gpu) {
  stack[depth++] = &foreign[gpu];
}

ring_cuda_result cuCtxPushCurrent_v2(ring_cuda_context context) {
  if (context == NULL || depth == DEPTH) return STUB_CUDA_INVALID_CONTEXT;
  stack[depth++] = context;
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuCtxPopCurrent_v2(ring_cuda_context *context) {
  NEED_CONTEXT;
  *context = stack[--depth];
  return RING_CUDA_SUCCESS;
}

/* ---- Memory -------------------------------------------------------------------------------- */

typedef struct memory {
  uint8_t *visible, *host;
  size_t bytes;
  ring_cuda_gpu gpu;
  struct memory *next;
} memory;
static memory *memories;

void *stub_cuda_host(const void *at) {
  void *found = (void *)at;
  pthread_mutex_lock(&lock);
  for (const memory *of = memories; of != NULL; of = of->next)
    if ((const uint8_t *)at >= of->visible && (const uint8_t *)at < of->visible + of->bytes)
      found = of->host + ((const uint8_t *)at - of->visible);
  pthread_mutex_unlock(&lock);
  return found;
}

ring_cuda_result cuPointerGetAttribute(void *value, ring_cuda_pointer_attribute attribute,
                                       ring_cuda_memory at) {
  ring_cuda_result result = STUB_CUDA_INVALID_VALUE;
  if (attribute != RING_CUDA_POINTER_GPU) return STUB_CUDA_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  for (const memory *of = memories; of != NULL; of = of->next)
    if (at >= (uintptr_t)of->visible && at < (uintptr_t)of->visible + of->bytes) {
      *(int *)value = of->gpu;
      result = RING_CUDA_SUCCESS;
    }
  pthread_mutex_unlock(&lock);
  return result;
}

ring_cuda_result cuMemAlloc_v2(ring_cuda_memory *result, size_t bytes) {
  NEED_CONTEXT;
  NEED_NO_CAPTURE;
  if (stub_cuda_fails("memory")) return STUB_CUDA_OUT_OF_MEMORY;
  int fd = memfd_create("gpu", MFD_CLOEXEC);
  memory *of = calloc(1, sizeof *of);
  if (bytes == 0 || fd < 0 || of == NULL || ftruncate(fd, (off_t)bytes) != 0) abort();
  of->bytes = bytes;
  of->gpu = current_gpu();
  of->visible = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, 0);
  of->host = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (of->visible == MAP_FAILED || of->host == MAP_FAILED) abort();
  close(fd);
  memset(of->host, 0xee, bytes);
  pthread_mutex_lock(&lock);
  of->next = memories;
  memories = of;
  pthread_mutex_unlock(&lock);
  stub_cuda_count(1);
  *result = (ring_cuda_memory)(uintptr_t)of->visible;
  return RING_CUDA_SUCCESS;
}

/* Waits for all streams. */
ring_cuda_result cuMemFree_v2(ring_cuda_memory at) {
  NEED_CONTEXT;
  NEED_NO_CAPTURE;
  stub_cuda_rest();
  pthread_mutex_lock(&lock);
  memory **link = &memories;
  while (*link != NULL && (uintptr_t)(*link)->visible != at) link = &(*link)->next;
  memory *of = *link;
  if (of != NULL) *link = of->next;
  pthread_mutex_unlock(&lock);
  if (of == NULL) return STUB_CUDA_INVALID_VALUE;
  munmap(of->visible, of->bytes);
  munmap(of->host, of->bytes);
  free(of);
  stub_cuda_count(-1);
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
  NEED_CONTEXT;
  NEED_NO_CAPTURE;
  if (stub_cuda_fails("register")) return STUB_CUDA_NOT_SUPPORTED;
  if ((uintptr_t)at % 4096 != 0 || bytes % 4096 != 0 || flags != RING_CUDA_HOST_REGISTER_PORTABLE)
    return STUB_CUDA_INVALID_VALUE;
  stub_cuda_count(1);
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuMemHostUnregister(void *at) {
  NEED_CONTEXT;
  stub_cuda_count(-1);
  return at != NULL ? RING_CUDA_SUCCESS : STUB_CUDA_INVALID_VALUE;
}
