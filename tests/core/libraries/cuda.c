/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for CUDA's driver, where tests have none: the parts that the core uses, on the memory of the host. A
 * stream is a thread. Memory of the GPU has an address that the process cannot touch, so that a test crashes where
 * the core reads it; copies and kernels use another mapping of it. cuda_kernels.c has the kernels.
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

enum {
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NO_GPU = 100,
  INVALID_GPU = 101,
  INVALID_CONTEXT = 201,
  LAUNCH_FAILED = 719,
  NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900
};
enum { GPUS = 8, DEPTH = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int live, queued;

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

static _Thread_local ring_cuda_capture_mode mode;
static int capturing; /* streams */

#define NEED_CONTEXT                                                                               \
  if (depth == 0) return INVALID_CONTEXT

/* For calls that a capture forbids. */
#define NEED_NO_CAPTURE                                                                            \
  if (!stub_cuda_may_disturb()) return CAPTURE_UNSUPPORTED

int stub_cuda_may_disturb(void) {
  return __atomic_load_n(&capturing, __ATOMIC_SEQ_CST) == 0 ||
         mode == RING_CUDA_CAPTURE_MODE_RELAXED;
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
  return stub_cuda_fails("init") || flags != 0 ? NO_GPU : RING_CUDA_SUCCESS;
}

ring_cuda_result cuDriverGetVersion(int *version) {
  *version = 12080;
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuGetErrorString(ring_cuda_result result, const char **text) {
  *text = result == NO_GPU ? "no CUDA-capable device is detected" : "the stub of CUDA fails";
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuDeviceGetCount(int *count) {
  *count = gpus();
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuDeviceGet(ring_cuda_gpu *gpu, int number) {
  *gpu = number;
  return number < gpus() ? RING_CUDA_SUCCESS : INVALID_GPU;
}

ring_cuda_result cuDeviceGetName(char *name, int length, ring_cuda_gpu gpu) {
  snprintf(name, (size_t)length, "stub %d", gpu);
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuDeviceGetAttribute(int *value, ring_cuda_attribute attribute,
                                      ring_cuda_gpu gpu) {
  if (gpu >= gpus()) return INVALID_VALUE;
  if (attribute == RING_CUDA_MULTIPROCESSOR_COUNT) *value = 2;
  if (attribute == RING_CUDA_CAPABILITY_MAJOR) *value = 9;
  if (attribute == RING_CUDA_CAPABILITY_MINOR) *value = 0;
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuDevicePrimaryCtxRetain(ring_cuda_context *context, ring_cuda_gpu gpu) {
  if (gpu >= gpus()) return INVALID_GPU;
  stub_cuda_count(1);
  __atomic_fetch_add(&contexts[gpu].retained, 1, __ATOMIC_SEQ_CST);
  *context = &contexts[gpu];
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuDevicePrimaryCtxRelease_v2(ring_cuda_gpu gpu) {
  stub_cuda_count(-1);
  return __atomic_fetch_sub(&contexts[gpu].retained, 1, __ATOMIC_SEQ_CST) > 0 ? RING_CUDA_SUCCESS
                                                                              : INVALID_CONTEXT;
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
  if (context == NULL || depth == DEPTH) return INVALID_CONTEXT;
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
  ring_cuda_result result = INVALID_VALUE;
  if (attribute != RING_CUDA_POINTER_GPU) return INVALID_VALUE;
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
  if (stub_cuda_fails("memory")) return OUT_OF_MEMORY;
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
  pthread_mutex_lock(&lock);
  while (queued > 0) pthread_cond_wait(&changed, &lock);
  memory **link = &memories;
  while (*link != NULL && (uintptr_t)(*link)->visible != at) link = &(*link)->next;
  memory *of = *link;
  if (of != NULL) *link = of->next;
  pthread_mutex_unlock(&lock);
  if (of == NULL) return INVALID_VALUE;
  munmap(of->visible, of->bytes);
  munmap(of->host, of->bytes);
  free(of);
  stub_cuda_count(-1);
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
  NEED_CONTEXT;
  NEED_NO_CAPTURE;
  if (stub_cuda_fails("register")) return NOT_SUPPORTED;
  if ((uintptr_t)at % 4096 != 0 || bytes % 4096 != 0 || flags != RING_CUDA_HOST_REGISTER_PORTABLE)
    return INVALID_VALUE;
  stub_cuda_count(1);
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuMemHostUnregister(void *at) {
  NEED_CONTEXT;
  stub_cuda_count(-1);
  return at != NULL ? RING_CUDA_SUCCESS : INVALID_VALUE;
}

/* ---- Events and streams -------------------------------------------------------------------- */

struct CUevent_st {
  uint64_t asked, done; /* how often it was recorded, and has come */
  int references;
};

typedef struct work {
  enum { COPY, FILL, RECORD, WAIT, FUNCTION } kind;
  void *to;
  const void *from;
  size_t bytes;
  uint8_t byte;
  ring_cuda_event event;
  uint64_t turn; /* of the event */
  stub_cuda_function function;
  void *arg;
  struct work *next;
} work;

struct CUstream_st {
  work *first, **last;
  int ends, captures, busy;
};

static void release_event(ring_cuda_event event) {
  if (--event->references == 0) free(event);
}

/* Runs one piece of work. Called with the lock, which is released meanwhile. */
static void run(const work *of) {
  if (of->kind == WAIT)
    while (of->event->done < of->turn) pthread_cond_wait(&changed, &lock);
  if (of->kind == RECORD && of->event->done < of->turn) of->event->done = of->turn;
  if (of->kind == WAIT || of->kind == RECORD) {
    release_event(of->event);
    return;
  }
  pthread_mutex_unlock(&lock);
  if (of->kind == COPY) memcpy(of->to, of->from, of->bytes);
  if (of->kind == FILL) memset(of->to, of->byte, of->bytes);
  if (of->kind == FUNCTION) of->function(of->arg);
  pthread_mutex_lock(&lock);
}

static void *stream_main(void *arg) {
  ring_cuda_stream stream = arg;
  pthread_mutex_lock(&lock);
  for (;;) {
    work *of = stream->first;
    if (of == NULL && stream->ends) break;
    if (of == NULL) {
      pthread_cond_wait(&changed, &lock);
      continue;
    }
    run(of);
    stream->first = of->next;
    if (stream->first == NULL) stream->last = &stream->first;
    free(of);
    queued--;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
  free(stream);
  return NULL;
}

static ring_cuda_stream stream_make(void) {
  pthread_t thread;
  ring_cuda_stream stream = calloc(1, sizeof *stream);
  if (stream == NULL) abort();
  stream->last = &stream->first;
  if (pthread_create(&thread, NULL, stream_main, stream) != 0) abort();
  pthread_detach(thread);
  return stream;
}

static ring_cuda_stream default_stream;
static void make_default_stream(void) {
  default_stream = stream_make();
}

static ring_cuda_stream stream_of(ring_cuda_stream stream) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (stream != NULL && (uintptr_t)stream != RING_CUDA_STREAM_OF_THREAD) return stream;
  pthread_once(&once, make_default_stream);
  return default_stream;
}

/* Ends the process where a stream captures: nothing may be put on it, and it may not be asked. */
static ring_cuda_stream used_stream(ring_cuda_stream stream) {
  stream = stream_of(stream);
  if (!__atomic_load_n(&stream->captures, __ATOMIC_SEQ_CST)) return stream;
  fprintf(stderr, "stub of CUDA: a stream that captures is used\n");
  abort();
}

static ring_cuda_result append(ring_cuda_stream stream, const work *given) {
  work *of = malloc(sizeof *of);
  if (of == NULL) abort();
  *of = *given;
  of->next = NULL;
  stream = used_stream(stream);
  pthread_mutex_lock(&lock);
  if (of->kind == RECORD) of->turn = ++of->event->asked;
  if (of->kind == WAIT) of->turn = of->event->asked;
  if (of->event != NULL) of->event->references++;
  *stream->last = of;
  stream->last = &of->next;
  queued++;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuStreamCreate(ring_cuda_stream *stream, unsigned flags) {
  NEED_CONTEXT;
  (void)flags;
  stub_cuda_count(1);
  *stream = stream_make();
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuStreamDestroy_v2(ring_cuda_stream stream) {
  NEED_CONTEXT;
  stub_cuda_count(-1);
  pthread_mutex_lock(&lock);
  stream->ends = 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuStreamQuery(ring_cuda_stream stream) {
  NEED_CONTEXT;
  NEED_NO_CAPTURE;
  stream = used_stream(stream);
  pthread_mutex_lock(&lock);
  ring_cuda_result result = stream->first == NULL ? RING_CUDA_SUCCESS : RING_CUDA_NOT_READY;
  pthread_mutex_unlock(&lock);
  return result;
}

ring_cuda_result cuStreamSynchronize(ring_cuda_stream stream) {
  NEED_CONTEXT;
  stream = stream_of(stream);
  pthread_mutex_lock(&lock);
  while (stream->first != NULL) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuStreamWaitEvent(ring_cuda_stream stream, ring_cuda_event event, unsigned flags) {
  NEED_CONTEXT;
  (void)flags;
  return append(stream, &(work){.kind = WAIT, .event = event});
}

ring_cuda_result cuStreamIsCapturing(ring_cuda_stream stream, ring_cuda_capture_status *status) {
  NEED_CONTEXT;
  if (stream == NULL && __atomic_load_n(&capturing, __ATOMIC_SEQ_CST) > 0)
    return RING_CUDA_CAPTURE_IMPLICIT;
  *status = __atomic_load_n(&stream_of(stream)->captures, __ATOMIC_SEQ_CST);
  return RING_CUDA_SUCCESS;
}

void stub_cuda_capture(ring_cuda_stream stream, int captures) {
  __atomic_store_n(&stream_of(stream)->captures, captures, __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&capturing, captures ? 1 : -1, __ATOMIC_SEQ_CST);
}

ring_cuda_result cuThreadExchangeStreamCaptureMode(ring_cuda_capture_mode *given) {
  const ring_cuda_capture_mode before = mode;
  mode = *given;
  *given = before;
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuEventCreate(ring_cuda_event *event, unsigned flags) {
  NEED_CONTEXT;
  (void)flags;
  *event = calloc(1, sizeof **event);
  if (*event == NULL) abort();
  (*event)->references = 1;
  stub_cuda_count(1);
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuEventDestroy_v2(ring_cuda_event event) {
  NEED_CONTEXT;
  stub_cuda_count(-1);
  pthread_mutex_lock(&lock);
  release_event(event);
  pthread_mutex_unlock(&lock);
  return RING_CUDA_SUCCESS;
}

ring_cuda_result cuEventRecord(ring_cuda_event event, ring_cuda_stream stream) {
  NEED_CONTEXT;
  return append(stream, &(work){.kind = RECORD, .event = event});
}

ring_cuda_result cuEventQuery(ring_cuda_event event) {
  NEED_CONTEXT;
  NEED_NO_CAPTURE;
  if (stub_cuda_fails("shutdown")) return RING_CUDA_DEINITIALIZED;
  pthread_mutex_lock(&lock);
  ring_cuda_result result = event->done >= event->asked ? RING_CUDA_SUCCESS : RING_CUDA_NOT_READY;
  pthread_mutex_unlock(&lock);
  return result;
}

ring_cuda_result cuLaunchHostFunc(ring_cuda_stream stream, stub_cuda_function function, void *arg) {
  NEED_CONTEXT;
  return append(stream, &(work){.kind = FUNCTION, .function = function, .arg = arg});
}

/* ---- Copies -------------------------------------------------------------------------------- */

static ring_cuda_result copy(void *to, const void *from, size_t bytes, ring_cuda_stream stream) {
  NEED_CONTEXT;
  if (stub_cuda_fails("copy")) return LAUNCH_FAILED;
  ring_cuda_result result =
      append(stream, &(work){.kind = COPY, .to = to, .from = from, .bytes = bytes});
  return stub_cuda_fails("register") ? cuStreamSynchronize(stream) : result;
}

static void *host_of(ring_cuda_memory at) {
  return stub_cuda_host((const void *)(uintptr_t)at);
}

ring_cuda_result cuMemcpyDtoHAsync_v2(void *to, ring_cuda_memory from, size_t bytes,
                                      ring_cuda_stream stream) {
  return copy(to, host_of(from), bytes, stream);
}

ring_cuda_result cuMemcpyHtoDAsync_v2(ring_cuda_memory to, const void *from, size_t bytes,
                                      ring_cuda_stream stream) {
  return copy(host_of(to), from, bytes, stream);
}

ring_cuda_result cuMemcpyDtoDAsync_v2(ring_cuda_memory to, ring_cuda_memory from, size_t bytes,
                                      ring_cuda_stream stream) {
  return copy(host_of(to), host_of(from), bytes, stream);
}

ring_cuda_result cuMemsetD8Async(ring_cuda_memory to, unsigned char byte, size_t bytes,
                                 ring_cuda_stream stream) {
  NEED_CONTEXT;
  return append(stream, &(work){.kind = FILL, .to = host_of(to), .byte = byte, .bytes = bytes});
}
