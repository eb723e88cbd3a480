/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a device: open, close, abort, free, explain.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/comm_lifecycle.h"
#include "api/split.h"
#include "base/error.h"
#include "base/platform.h"
#include "device/device_hub.h"
#include "device/device_open.h"
#include "device/kernels.h"
#include "device/nccl_comm.h"
#include "device/pending.h"
#include "device/pinned.h"
#include "device/watch.h"

/* ---- Opening ------------------------------------------------------------------------------- */

/* Hook of the device's communicator: ends its waits when the device has failed. */
static int lifecycle_interrupt(void *arg) {
  const ring_device *device = arg;
  if (device->failed) return 1;
  return device->interrupt != NULL ? device->interrupt(device->interrupt_arg) : 0;
}

/* Frees what the GPU and the driver have. The communicator's memory goes with it. */
static void lifecycle_release(void *arg) {
  ring_device *device = arg;
  ring_cuda_capture_mode mode;
  ring_nccl_end(device);
  if (device->context == NULL || ring_device_push(device, &mode) != RING_CUDA_SUCCESS) return;
  ring_pinned_free(device);
  ring_kernels_free(device);
  ring_pending_free(device);
  ring_device_pop(device, mode);
  device->cuda.context_release(device->gpu);
}

static ring_device *lifecycle_make(ring_comm *child) {
  ring_device *device = calloc(1, sizeof *device);
  if (device == NULL) return NULL;
  device->process = ring_platform_process();
  device->comm = child;
  device->rank = ring_comm_rank(child);
  device->size = ring_comm_size(child);
  device->call_timeout = child->call_timeout;
  device->interrupt = child->interrupt;
  device->interrupt_arg = child->interrupt_arg;
  pthread_mutex_init(&device->mutex, NULL);
  pthread_mutex_init(&device->nccl_mutex, NULL);
  ring_platform_condition_init(&device->stopped);
  ring_detached_init(&device->abort, ring_nccl_end, device);
  ring_detached_init(&device->release, lifecycle_release, device);
  return device;
}

/* A thing that a rank lacks makes the open fail on all. */
static ring_status lifecycle_agree(ring_comm *child, bool made, const char *thing) {
  const int32_t lacking = made ? -1 : ring_comm_rank(child);
  int32_t most;
  ring_status status = ring_allreduce(child, &lacking, &most, 1, RING_INT32, RING_MAX);
  if (status != RING_OK || most < 0) return status;
  if (most >= ring_comm_size(child))
    return ring_comm_accuse(child, -1, "a rank that does not exist");
  return ring_error_set(&child->error, RING_SYSTEM, most, 0, "rank %d (%s) has no %s for a device",
                        most, ring_comm_name(child, most), thing);
}

/* The device inherits the hooks after the hub does: a hub's own waits end by its messages. */
static ring_status lifecycle_open(ring_device *device, const ring_device_options *options) {
  ring_status status = ring_device_hub_open(device);
  if (status != RING_OK) return status;
  device->comm->interrupt = lifecycle_interrupt;
  device->comm->interrupt_arg = device;
  status = ring_device_choose(device, options);
  if (status != RING_OK) return status;
  if (device->path == RING_DEVICE_NCCL) /* the decision about a call of NCCL comes first */
    device->comm->call_timeout += ring_device_hub_patience(device) + 1;
  return lifecycle_agree(device->comm, ring_watch_begin(device) == 0, "thread");
}

static ring_status lifecycle_check(ring_comm *comm, const ring_device_options *options) {
  if (options->struct_size != sizeof *options)
    return ring_error_set(&comm->error, RING_INVALID, -1, 0,
                          "device: begin options with RING_DEVICE_OPTIONS_INIT");
  if (options->path < RING_DEVICE_AUTO || options->path > RING_DEVICE_HOST)
    return ring_error_set(&comm->error, RING_INVALID, -1, 0, "device: %d is no path",
                          (int)options->path);
  return RING_OK;
}

ring_status ring_device_open(ring_comm *comm, const ring_device_options *options,
                             ring_device **device) {
  const ring_device_options usual = RING_DEVICE_OPTIONS_INIT;
  ring_comm *child;
  if (device == NULL || comm == NULL) return RING_INVALID;
  *device = NULL;
  if (options == NULL) options = &usual;
  ring_status status = lifecycle_check(comm, options);
  if (status == RING_OK) status = ring_comm_split_native(comm, &child);
  if (status != RING_OK) return status;
  ring_device *made = lifecycle_make(child);
  status = lifecycle_agree(child, made != NULL, "memory");
  if (status == RING_OK && made != NULL) status = lifecycle_open(made, options);
  if (status == RING_OK) {
    *device = made;
    return RING_OK;
  }
  bool failed = made != NULL && made->failed;
  comm->error = failed ? made->failure : *ring_comm_error(child);
  if (!failed)
    ring_comm_close(child); /* to free it would abort ranks that do not have the error yet */
  if (made == NULL) ring_comm_free(child);
  ring_device_free(made);
  return status;
}

/* ---- Ending -------------------------------------------------------------------------------- */

/* Waits until no other thread waits, tests, aborts, explains or allocates. */
static bool lifecycle_await_users(const ring_device *device) {
  const struct timespec time = {0, 1000000};
  for (uint64_t begun = ring_platform_now(); device->users > 0; nanosleep(&time, NULL))
    if (ring_platform_now() - begun > RING_DEVICE_FREE_SECONDS * UINT64_C(1000000000)) return false;
  return true;
}

/* False when the GPU, NCCL or a user does not let go of the device: its memory has to stay. The watch thread has
 * ended. */
static bool lifecycle_let_go(ring_device *device) {
  if (!ring_detached_await(&device->abort, RING_DEVICE_FREE_SECONDS)) return false;
  if (!lifecycle_await_users(device)) return false;
  ring_detached_begin(&device->release);
  return ring_detached_await(&device->release, RING_DEVICE_FREE_SECONDS);
}

/* Waits until the watch thread has retired all calls. */
static ring_status lifecycle_drain(ring_device *device) {
  ring_device_pause pause = {0};
  for (;;) {
    size_t pending = ring_pending_count(device);
    if (device->failed) return ring_device_check(device);
    if (pending == 0) return RING_OK;
    ring_status status = ring_device_pause_once(device, &pause, "close");
    if (status == RING_ABORTED && !device->failed)
      return ring_device_hub_report(device, ring_device_reason());
  }
}

/* The watch thread watches until NCCL has ended. The ranks that are ahead may end their messages meanwhile. */
static ring_status lifecycle_close(ring_device *device) {
  ring_status status = lifecycle_drain(device);
  if (status != RING_OK) return status;
  device->closing = true;
  if (ring_barrier(device->comm) != RING_OK) {
    if (device->failed) return ring_device_check(device);
    return ring_device_hub_report(device, ring_comm_error(device->comm));
  }
  status = ring_nccl_finalize(device);
  if (status != RING_OK) return status;
  ring_watch_end(device);
  status = ring_device_check(device);
  if (status != RING_OK) return status;
  device->closed = true;
  status = ring_device_hub_close(device);
  if (status != RING_OK) return status;
  status = ring_comm_close(device->comm);
  if (status != RING_OK) *ring_device_reason() = *ring_comm_error(device->comm);
  return status;
}

static ring_status lifecycle_leaks(const ring_device *device) {
  return ring_error_set(ring_device_reason(), RING_SYSTEM, device->rank, 0,
                        "rank %d (%s): its GPU or NCCL does not end within %d s, so memory of the "
                        "device is not freed before the process ends",
                        device->rank, device_host(device, device->rank), RING_DEVICE_FREE_SECONDS);
}

ring_status ring_device_close(ring_device *device) {
  ring_status status = ring_device_enter(device);
  if (status != RING_OK) return status;
  status = lifecycle_close(device);
  ring_device_leave(device, status);
  if (device->closed && !lifecycle_let_go(device) && status == RING_OK)
    status = lifecycle_leaks(device);
  return status;
}

void ring_device_abort(ring_device *device, const char *reason) {
  ring_error error;
  if (ring_device_use(device) == RING_OK) {
    ring_error_set(&error, RING_ABORTED, device->rank, 0, "rank %d (%s) aborted its device: %s",
                   device->rank, device_host(device, device->rank),
                   reason != NULL && reason[0] != '\0' ? reason : "no reason was given");
    ring_device_hub_report(device, &error);
  }
  ring_device_unuse(device);
}

static void lifecycle_warn(const ring_device *device) {
  const ring_alarm *alarm = &device->comm->alarm;
  lifecycle_leaks(device);
  if (alarm->log != NULL) alarm->log(alarm->log_arg, ring_device_reason()->message);
}

void ring_device_free(ring_device *device) {
  if (device == NULL) return;
  bool mine = device->process == ring_platform_process(), lets_go = true;
  if (mine) {
    if (device->watched) ring_device_abort(device, "it freed the device without closing it");
    ring_watch_end(device);
    lets_go = lifecycle_let_go(device);
    if (!lets_go) lifecycle_warn(device);
  }
  ring_device_hub_free(device);
  ring_comm_free(device->comm);
  if (!lets_go) return;
  if (mine) {
    ring_detached_destroy(&device->abort);
    ring_detached_destroy(&device->release);
    pthread_mutex_destroy(&device->mutex);
    pthread_mutex_destroy(&device->nccl_mutex);
    pthread_cond_destroy(&device->stopped);
  }
  free(device);
}

/* ---- Explaining ---------------------------------------------------------------------------- */

static void lifecycle_write(const ring_device *device, ring_device_explanation *e) {
  if (e->path == RING_DEVICE_NCCL)
    snprintf(e->text, sizeof e->text,
             "rank %d (%s), GPU %d (%s, CUDA %d.%d): NCCL %d.%d.%d; bool, int16, uint16, PROD of "
             "complex dtypes, AVG of integers, logical and bitwise ops through the host",
             device->rank, device_host(device, device->rank), e->gpu, e->gpu_name,
             e->cuda_version / 1000, e->cuda_version % 1000 / 10, e->nccl_version / 10000,
             e->nccl_version / 100 % 100, e->nccl_version % 100);
  else
    snprintf(e->text, sizeof e->text,
             "rank %d (%s), GPU %d (%s, CUDA %d.%d): through the host%s, because %s", device->rank,
             device_host(device, device->rank), e->gpu, e->gpu_name, e->cuda_version / 1000,
             e->cuda_version % 1000 / 10,
             e->page_locked == 0 ? " in memory that CUDA could not lock, which is slow" : "",
             e->reason);
  size_t length = strlen(e->text);
  if (device->kernels.lacking[0] != '\0')
    snprintf(e->text + length, sizeof e->text - length,
             "; groups are not packed, and conversions go through the host, because %s",
             device->kernels.lacking);
}

static void lifecycle_explain(ring_device *device, ring_device_explanation *explanation) {
  bool nccl = device->path == RING_DEVICE_NCCL;
  int page_locked = device->pinned.page_locked;
  pthread_mutex_lock(&device->mutex);
  uint32_t calls = device->sequence;
  pthread_mutex_unlock(&device->mutex);
  *explanation =
      (ring_device_explanation){.path = device->path,
                                .reason = device->reason,
                                .gpu = device->gpu,
                                .gpu_name = device->gpu_name,
                                .nccl_version = nccl ? device->nccl_version : 0,
                                .cuda_version = device->cuda_version,
                                .page_locked = page_locked == 0 ? -1 : (page_locked > 0 ? 1 : 0),
                                .calls = calls,
                                .launches = atomic_load(&device->kernels.launches)};
  lifecycle_write(device, explanation);
}

ring_status ring_device_explain(ring_device *device, ring_device_explanation *explanation) {
  ring_status status = ring_device_use(device);
  if (status == RING_OK && explanation == NULL)
    status = ring_device_invalid(device, "explain: explanation is NULL");
  if (status == RING_OK) lifecycle_explain(device, explanation);
  ring_device_unuse(device);
  return status;
}
