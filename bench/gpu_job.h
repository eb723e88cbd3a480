/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of the benchmark of a GPU: what they open, how they measure, and the lines of JSON that they write.
 */
#ifndef BENCH_GPU_JOB_H
#define BENCH_GPU_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/library.h"
#include "device/cuda_api.h"
#include "sparkring.h"
#include "stopwatch.h"

enum { ROUNDS = 15 };
#ifndef GIB
#define GIB ((size_t)1 << 30)
#define MIB ((size_t)1 << 20)
#endif

static ring_cuda cuda;
static ring_cuda_result (*copy_on_gpu)(ring_cuda_memory, ring_cuda_memory, size_t,
                                       ring_cuda_stream);
static int *missed; /* bounds, of all processes */

/* ---- Telling -------------------------------------------------------------------------------- */

static inline void need(bool worked, const char *what) {
  if (worked) return;
  printf("{\"name\": \"failed\", \"value\": 0, \"unit\": \"%s\", \"ok\": false}\n", what);
  fflush(stdout);
  exit(1);
}

static inline void tell(const char *name, double value, const char *unit) {
  printf("{\"name\": \"%s\", \"value\": %.4g, \"unit\": \"%s\"}\n", name, value, unit);
}

static inline void tell_bound(const char *name, double value, const char *unit, const char *bound,
                              double limit) {
  bool ok = strcmp(bound, "least") == 0 ? value >= limit : value <= limit;
  printf("{\"name\": \"%s\", \"value\": %.4g, \"unit\": \"%s\", \"%s\": %.4g, \"ok\": %s}\n", name,
         value, unit, bound, limit, ok ? "true" : "false");
  if (!ok) __sync_fetch_and_add(missed, 1);
}

/* ---- A rank --------------------------------------------------------------------------------- */

static inline void use_gpu(int rank, bool own_host) {
  char problem[256], host[32];
  ring_cuda_context context;
  snprintf(host, sizeof host, "rank-%d", rank);
  if (own_host) setenv("NCCL_HOSTID", host, 1);
  need(ring_cuda_load(&cuda, NULL, problem, sizeof problem), problem);
  void *library = ring_library_load(RING_CUDA_LIBRARIES, problem, sizeof problem);
  ring_library_find(library, "cuMemcpyDtoDAsync_v2", &copy_on_gpu);
  need(cuda.context_retain(&context, 0) == 0 && cuda.context_push(context) == 0, "no context");
}

static inline ring_comm *open_comm(int rank, int size, int job) {
  static const char *addresses[] = {"127.0.0.1", "127.0.0.1"};
  char name[64];
  ring_comm *comm;
  ring_error error;
  ring_options options = RING_OPTIONS_INIT;
  snprintf(name, sizeof name, "benchmark of a GPU %d %d", (int)(size == 1 ? getpid() : getppid()),
           job);
  options.rank = rank;
  options.size = size;
  options.addresses = addresses;
  options.address_count = size;
  options.token = name;
  options.token_length = strlen(name) + 1;
  options.job = name;
  options.timeout = 60;
  options.call_timeout = 30;
  if (ring_comm_open(&options, &comm, &error) != RING_OK) need(false, error.message);
  return comm;
}

static ring_comm *device_comm; /* of the device of this process */

static inline ring_device *open_device(ring_comm *comm, ring_device_path path) {
  ring_device *device;
  device_comm = comm;
  ring_device_options options = RING_DEVICE_OPTIONS_INIT;
  options.nccl = getenv("SPARKRING_TEST_NCCL");
  options.nvrtc = getenv("SPARKRING_TEST_NVRTC");
  options.path = path;
  if (ring_device_open(comm, &options, &device) != RING_OK)
    need(false, ring_comm_error(comm)->message);
  return device;
}

/* The communicator, whose next call is on memory of the GPU. */
static inline ring_comm *on(ring_device *device, void *stream) {
  ring_comm_on_device(device_comm, device, stream);
  return device_comm;
}

static inline void well(ring_device *device, ring_status status) {
  if (status != RING_OK) need(false, ring_device_error(device)->message);
}

static inline void *on_gpu(size_t bytes) {
  ring_cuda_memory memory;
  need(cuda.memory_alloc(&memory, bytes) == 0, "no memory on the GPU");
  need(cuda.fill(memory, 0, bytes, NULL) == 0, "fill");
  return (void *)(uintptr_t)memory;
}

static inline void rest(void) {
  while (cuda.stream_query(NULL) == RING_CUDA_NOT_READY) continue;
}

/* Median seconds of a function, after one more call. */
typedef void (*timed)(void *arg);
static inline double time_of(timed function, void *arg) {
  double seconds[ROUNDS] = {0};
  for (int round = -1; round < ROUNDS; round++) {
    rest();
    double begun = now();
    function(arg);
    rest();
    if (round >= 0) seconds[round] = now() - begun;
  }
  return median(seconds, ROUNDS);
}

/* ---- Two ranks ------------------------------------------------------------------------------ */

typedef void (*rank_function)(int rank, void *shared);

/* Runs two processes; rank 1 may be killed. */
static inline void run_ranks(rank_function function, bool kills) {
  pid_t ranks[2];
  void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  fflush(stdout);
  for (int rank = 0; rank < 2; rank++) {
    ranks[rank] = fork();
    if (ranks[rank] != 0) continue;
    alarm(120);
    function(rank, shared);
    fflush(stdout);
    _exit(0);
  }
  for (int rank = 0; rank < 2; rank++) {
    int status = 0;
    waitpid(ranks[rank], &status, 0);
    if (status != 0 && !(kills && rank == 1)) __sync_fetch_and_add(missed, 1);
  }
  munmap(shared, 4096);
}

#endif
