/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and events of the stub of CUDA: a stream is a thread that carries its work out.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int queued;
static int capturing; /* streams */
static _Thread_local ring_cuda_capture_mode mode;

int stub_cuda_may_disturb(void) {
  return __atomic_load_n(&capturing, __ATOMIC_SEQ_CST) == 0 ||
         mode == RING_CUDA_CAPTURE_MODE_RELAXED;
}

void stub_cuda_rest(void) {
  pthread_mutex_lock(&lock);
  while (queued > 0) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
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
  if (stub_cuda_fails("copy")) return STUB_CUDA_LAUNCH_FAILED;
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
