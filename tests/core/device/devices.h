/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices of the ranks of a test, on the stubs of CUDA and NCCL (tests/core/libraries), with a GPU for each rank. With
 * SPARKRING_TEST_GPU=1 (scripts/sections/gpu) the libraries are the real ones, and all ranks share GPU 0. To NCCL they
 * are on hosts of their own then, for it refuses two ranks of a host on one GPU.
 */
#ifndef RING_DEVICES_H
#define RING_DEVICES_H

#include <dlfcn.h>
#include <stdint.h>
#include <unistd.h>

#include "check.h"
#include "device/cuda_api.h"
#include "ranks.h"

/* CUDA; and what the stub has beside CUDA, the same functions as in libraries/cuda.h. */
typedef struct stub {
  ring_cuda cuda;
  ring_cuda_context context;
  int (*live)(void); /* NULL: of a real GPU */
  void (*capture)(ring_cuda_stream stream, int captures);
  void (*use_foreign)(int gpu);
  int at_first;    /* live, before there is a device */
  ring_comm *comm; /* of the device */
} stub;

static stub gpu;

static inline bool gpu_is_real(void) {
  const char *set = getenv("SPARKRING_TEST_GPU");
  return set != NULL && strcmp(set, "1") == 0;
}

/* Ranks of a test: as many as divide numbers without rounding, where NCCL rounds otherwise. */
static inline int most_ranks(void) {
  return gpu_is_real() ? 2 : 3;
}

static inline void stub_find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  CHECK(found != NULL);
  memcpy(function, &found, sizeof found);
}

/* Runs a test that needs failures which only the stubs have, or several GPUs. */
#define RUN_ON_STUBS(test)                                                                         \
  do {                                                                                             \
    if (gpu_is_real())                                                                             \
      printf("%s: skipped, for it needs the stubs of CUDA and NCCL\n", #test);                     \
    else                                                                                           \
      RUN(test);                                                                                   \
  } while (0)

static inline void load_cuda(void) {
  char problem[256];
  const char *names = gpu_is_real() ? NULL : SPARKRING_CUDA_STUB;
  CHECK_INT(setenv("CUDA_STUB_GPUS", "8", 1), 0);
  if (!ring_cuda_load(&gpu.cuda, names, problem, sizeof problem)) {
    fprintf(stderr, "%s\n", problem);
    exit(1);
  }
  if (!gpu_is_real()) {
    void *library = dlopen(names, RTLD_NOW);
    CHECK(library != NULL);
    stub_find(library, "stub_cuda_live", &gpu.live);
    stub_find(library, "stub_cuda_capture", &gpu.capture);
    stub_find(library, "stub_cuda_use_foreign", &gpu.use_foreign);
  }
}

/* Makes the primary context of a GPU this thread's, as a user's framework does. */
static inline void use_gpu(int number) {
  char host[32];
  load_cuda();
  snprintf(host, sizeof host, "rank-%d", number);
  if (gpu_is_real()) CHECK_INT(setenv("NCCL_HOSTID", host, 1), 0);
  CHECK_INT(gpu.cuda.context_retain(&gpu.context, gpu_is_real() ? 0 : number), 0);
  CHECK_INT(gpu.cuda.context_push(gpu.context), 0);
  gpu.at_first = gpu.live != NULL ? gpu.live() : 0;
}

/* Nothing of a device is left. */
static inline void expect_no_leak(void) {
  if (gpu.live != NULL) CHECK_INT(gpu.live(), gpu.at_first);
}

static inline ring_device_options device_options(ring_device_path path) {
  ring_device_options options = RING_DEVICE_OPTIONS_INIT;
  options.nccl = gpu_is_real() ? getenv("SPARKRING_TEST_NCCL") : SPARKRING_NCCL_RANKS_STUB;
  options.cuda = gpu_is_real() ? NULL : SPARKRING_CUDA_STUB;
  options.nvrtc = gpu_is_real() ? getenv("SPARKRING_TEST_NVRTC") : SPARKRING_NVRTC_STUB;
  options.path = path;
  return options;
}

/* A device on the GPU of the rank's number. */
static inline ring_device *open_device(ring_comm *comm, ring_device_path path) {
  const ring_device_options options = device_options(path);
  ring_device *device;
  if (gpu.context == NULL) use_gpu(ring_comm_rank(comm));
  gpu.comm = comm;
  ring_status status = ring_device_open(comm, &options, &device);
  if (status != RING_OK) fprintf(stderr, "device: %s\n", ring_comm_error(comm)->message);
  CHECK_INT(status, RING_OK);
  return device;
}

/* The communicator, whose next call is on memory of the GPU. */
static inline ring_comm *on(ring_device *device, void *stream) {
  ring_comm_on_device(gpu.comm, device, stream);
  return gpu.comm;
}

static inline void device_went_well(ring_device *device, ring_status status) {
  if (status != RING_OK) fprintf(stderr, "device: %s\n", ring_device_error(device)->message);
  CHECK_INT(status, RING_OK);
}

static inline void close_device(ring_device *device) {
  device_went_well(device, ring_device_close(device));
  ring_device_free(device);
  expect_no_leak();
}

/* ---- Memory -------------------------------------------------------------------------------- */

static inline void stream_rests(ring_cuda_stream stream) {
  int tries = 0;
  for (; gpu.cuda.stream_query(stream) == RING_CUDA_NOT_READY && tries < 100000; tries++)
    usleep(100);
  CHECK(tries < 100000);
}

static inline void *gpu_alloc(size_t bytes) {
  ring_cuda_memory memory;
  CHECK_INT(gpu.cuda.memory_alloc(&memory, bytes > 0 ? bytes : 1), 0);
  return (void *)(uintptr_t)memory;
}

static inline void gpu_free(void *memory) {
  CHECK_INT(gpu.cuda.memory_free((ring_cuda_memory)(uintptr_t)memory), 0);
}

static inline void gpu_put(void *memory, const void *from, size_t bytes) {
  if (bytes > 0)
    CHECK_INT(gpu.cuda.copy_up((ring_cuda_memory)(uintptr_t)memory, from, bytes, NULL), 0);
  stream_rests(NULL);
}

static inline void gpu_get(void *to, const void *memory, size_t bytes) {
  if (bytes > 0)
    CHECK_INT(gpu.cuda.copy_down(to, (ring_cuda_memory)(uintptr_t)memory, bytes, NULL), 0);
  stream_rests(NULL);
}

static inline void *gpu_copy(const void *from, size_t bytes) {
  void *memory = gpu_alloc(bytes);
  gpu_put(memory, from, bytes);
  return memory;
}

/* ---- Calls --------------------------------------------------------------------------------- */

/* One allreduce, which shows that the device works. */
static inline void use_device(ring_device *device, int size) {
  float value = 1;
  void *memory = gpu_copy(&value, sizeof value);
  device_went_well(device,
                   ring_allreduce(on(device, NULL), memory, memory, 1, RING_FLOAT32, RING_SUM));
  device_went_well(device, ring_device_wait(device, NULL));
  gpu_get(&value, memory, sizeof value);
  CHECK_INT(value, size);
  gpu_free(memory);
}

/* A sum of two buffers of float32. */
static inline ring_status reduce_group(ring_device *device, const ring_buffer *buffers,
                                       ring_dtype wire, ring_cuda_stream stream) {
  return ring_device_allreduce_group(device, buffers, 2, RING_FLOAT32, wire, RING_SUM, 1, 1,
                                     stream);
}

#endif
