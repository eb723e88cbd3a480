/* SPDX-License-Identifier: Apache-2.0
 *
 * How a device fails in a test, and what every rank learns. Every failure ends the device on all ranks with an error
 * that names the rank at fault. Then streams go on, later calls fail alike, and nothing is left. The patience of a wait
 * is for a test that would hang.
 */
#ifndef RING_DEVICE_STORY_H
#define RING_DEVICE_STORY_H

#include "devices.h"
#include "load.h"
#include "victims.h"

enum { RANKS = 3, COUNT = 1000 };
enum { NOBODY = -1, ANYBODY = -2 }; /* at fault */
/* A call timeout that shall pass; NCCL begins within half of it. */
#define SOON (0.7 * load_stretch(8))

/* How rank 1, or the victim, fails, and what every other rank learns. */
typedef struct story {
  failing f; /* f.victim: a rank that is killed; -1: none */
  ring_device_path path;
  const char *nccl_fails, *cuda_fails;
  double timeout; /* 0: the usual one */
  ring_status status;
  int fault;
  const char *text;
  int met, over;
} story;

static inline ring_device *open_story(const story *s, int rank, int size, ring_comm **comm) {
  ring_options options = rank_options(rank, size);
  if (s->timeout > 0) options.call_timeout = s->timeout;
  *comm = open_with(&options);
  if (s->nccl_fails != NULL) CHECK_INT(setenv("NCCL_STUB_FAILS", s->nccl_fails, 1), 0);
  if (s->cuda_fails != NULL) CHECK_INT(setenv("CUDA_STUB_FAILS", s->cuda_fails, 1), 0);
  return open_device(*comm, s->path);
}

static inline void check_reason(const story *s, const ring_error *error) {
  if (error->status != s->status || (s->fault != ANYBODY && error->rank != s->fault))
    fprintf(stderr, "%s, rank %d: %s\n", ring_status_name(error->status), error->rank,
            error->message);
  CHECK_INT(error->status, s->status);
  if (s->fault != ANYBODY) CHECK_INT(error->rank, s->fault);
  CHECK_CONTAINS(error->message, s->text);
}

/* The device has failed: every call returns the reason, the stream goes on, and all is freed. */
static inline void expect_failure(story *s, ring_device *device, ring_comm *comm, void *memory) {
  int done;
  check_reason(s, ring_device_error(device));
  stream_rests(NULL);
  CHECK_INT(ring_allreduce(on(device, NULL), memory, memory, 1, RING_INT32, RING_SUM), s->status);
  CHECK_INT(ring_device_wait(device, NULL), s->status);
  CHECK_INT(ring_device_test(device, NULL, &done), s->status);
  CHECK_INT(ring_device_cast(device, memory, RING_FLOAT32, memory, RING_FLOAT32, 1, 1, NULL),
            s->status);
  CHECK_INT(ring_device_close(device), s->status);
  check_reason(s, ring_device_error(device));
  ring_device_free(device);
  gpu_free(memory);
  expect_no_leak();
  ring_comm_free(comm);
}

static inline ring_status reduce_and_wait(ring_device *device, void *memory) {
  ring_status status =
      ring_allreduce(on(device, NULL), memory, memory, COUNT, RING_INT32, RING_SUM);
  return status == RING_OK ? ring_device_wait(device, NULL) : status;
}

#endif
