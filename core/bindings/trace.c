/* SPDX-License-Identifier: Apache-2.0 */
#include "bindings/trace.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/platform.h"
#include "bindings/trace_event.h"

#define TRACE_EVENTS ((size_t)1 << 16) /* of the ring buffer: 2.6 MB */
#define TRACE_BATCH 512
#define TRACE_PIECE ((size_t)1 << 18) /* bytes of text that are written at once */
#define TRACE_MOST (UINT64_C(1) << 28)
#define TRACE_PERIOD_MS 50
#define TRACE_QUIET                                                                                \
  20 /* periods without an event, after which the open call gets its new duration */

struct ring_trace {
  ring_comm *comm;
  unsigned process;
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t
      changed; /* the thread waits for its period or `stops`, which wakes it with the mutex */
  bool stops;
  ring_trace_events events;
  ring_trace_file file;
  ring_trace_text text;
  uint64_t next; /* event to read */
  int quiet;     /* periods without an event */
  bool full;
  int code; /* the errno of the first write that has failed */
  ring_event batch[TRACE_BATCH];
};

/* ---- The thread --------------------------------------------------------------------------- */

/* Writes the text. The lines after `final` are provisional. */
static void trace_write(ring_trace *trace, size_t final) {
  if (trace->code == 0 && trace->text.failed) trace->code = ENOMEM;
  if (trace->code == 0) trace->code = ring_trace_file_write(&trace->file, &trace->text, final);
  trace->text.length = 0;
}

/* Reads new events into the text, at most a piece. Returns whether there may be more. */
static bool trace_read(ring_trace *trace) {
  char lost[48];
  size_t count = TRACE_BATCH;
  while (count == TRACE_BATCH && trace->text.length < TRACE_PIECE) {
    uint64_t from = trace->next;
    count = ring_comm_timeline_read(trace->comm, &trace->next, trace->batch, TRACE_BATCH);
    if (trace->next - from > count && count > 0) {
      snprintf(lost, sizeof lost, "%llu events lost",
               (unsigned long long)(trace->next - from - count));
      ring_trace_event_add_mark(&trace->events, lost, trace->batch[0].time, &trace->text);
    }
    for (size_t i = 0; i < count; i++)
      ring_trace_event_add(&trace->events, &trace->batch[i], &trace->text);
  }
  return count == TRACE_BATCH;
}

/* Copies the events since the last time. */
static void trace_copy(ring_trace *trace, bool last) {
  uint64_t from = trace->next;
  if (trace->code != 0 || trace->full) return;
  while (trace_read(trace)) trace_write(trace, trace->text.length);
  trace->quiet = trace->next == from ? trace->quiet + 1 : 0;
  if (trace->file.end > TRACE_MOST) {
    trace->full = true;
    ring_trace_event_add_mark(&trace->events, "the trace is full", ring_platform_now(),
                              &trace->text);
  }
  if (trace->quiet % TRACE_QUIET != 0 && !last) return;
  size_t final = trace->text.length;
  ring_trace_event_add_open(&trace->events, ring_platform_now(), &trace->text);
  trace_write(trace, final);
}

static void *trace_main(void *arg) {
  ring_trace *trace = arg;
  pthread_mutex_lock(&trace->mutex);
  while (!trace->stops) {
    pthread_mutex_unlock(&trace->mutex);
    trace_copy(trace, false);
    pthread_mutex_lock(&trace->mutex);
    if (!trace->stops)
      ring_platform_condition_wait(&trace->changed, &trace->mutex, TRACE_PERIOD_MS);
  }
  pthread_mutex_unlock(&trace->mutex);
  trace_copy(trace, true);
  return NULL;
}

/* ---- Life --------------------------------------------------------------------------------- */

/* Copies a host name; what JSON would need to escape becomes "?". */
static void trace_host(char *to, size_t size, const char *host) {
  size_t length = 0;
  for (; *host != 0 && length + 1 < size; host++)
    to[length++] = (unsigned char)*host < ' ' || *host == '"' || *host == '\\' ? '?' : *host;
  to[length] = 0;
}

static int trace_open_file(ring_trace *trace, const char *directory,
                           const ring_clock_offset *offset) {
  char path[PATH_MAX], host[256], first[1280];
  const ring_comm *comm = trace->comm;
  int rank = ring_comm_rank(comm);
  unsigned long long epoch = ring_comm_epoch(comm);
  int length = snprintf(path, sizeof path, "%s/rank-%05d-%016llx.json", directory, rank, epoch);
  if (length >= (int)sizeof path) return ENAMETOOLONG;
  trace_host(host, sizeof host, ring_comm_host(comm, rank));
  snprintf(
      first, sizeof first,
      "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":\"rank %d "
      "(%s)\",\"rank\":%d,\"size\":%d,\"host\":\"%s\",\"epoch\":\"%016llx\",\"clock_offset_ns\":%"
      "lld,"
      "\"clock_error_ns\":%lld}}\n,{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%d,"
      "\"tid\":0,"
      "\"args\":{\"sort_index\":%d}}\n,{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,"
      "\"args\":{\"name\":\"calls\"}}",
      rank, rank, host, rank, ring_comm_size(comm), host, epoch, (long long)offset->nanoseconds,
      (long long)offset->error, rank, rank, rank);
  return ring_trace_file_open(&trace->file, path, first);
}

static void trace_free(ring_trace *trace) {
  close(trace->file.descriptor);
  free(trace->text.bytes);
  free(trace);
}

static int trace_start_thread(ring_trace *trace) {
  int code = ring_platform_condition_init(&trace->changed);
  if (code == 0) code = pthread_mutex_init(&trace->mutex, NULL);
  if (code == 0) code = ring_platform_thread(&trace->thread, trace_main, trace);
  return code;
}

int ring_trace_start(ring_comm *comm, const char *directory, const ring_clock_offset *offset,
                     bool cycles, ring_trace **out) {
  ring_trace *trace = calloc(1, sizeof *trace);
  if (trace == NULL) return ENOMEM;
  trace->comm = comm;
  trace->process = ring_platform_process();
  trace->events.rank = ring_comm_rank(comm);
  trace->events.cycles = cycles;
  trace->events.shift = offset->nanoseconds - offset->origin;
  int code = trace_open_file(trace, directory, offset);
  if (code != 0) {
    free(trace);
    return code;
  }
  ring_status status = ring_comm_timeline(comm, TRACE_EVENTS);
  if (status != RING_OK) code = status == RING_NO_MEMORY ? ENOMEM : EBUSY;
  if (code == 0) code = trace_start_thread(trace);
  if (code == 0)
    *out = trace;
  else
    trace_free(trace);
  return code;
}

int ring_trace_stop(ring_trace *trace) {
  if (trace == NULL) return 0;
  int code = 0;
  if (trace->process == ring_platform_process()) {
    pthread_mutex_lock(&trace->mutex);
    trace->stops = true;
    pthread_cond_signal(&trace->changed);
    pthread_mutex_unlock(&trace->mutex);
    pthread_join(trace->thread, NULL);
    pthread_mutex_destroy(&trace->mutex);
    pthread_cond_destroy(&trace->changed);
    if (ring_comm_usable(trace->comm)) ring_comm_timeline(trace->comm, 0);
    code = trace->code;
  }
  trace_free(trace);
  return code;
}
