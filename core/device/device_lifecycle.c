/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a device: open, close, abort, free, explain.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
  ring_platform_condition_init(&device->stopped);
  return device;
}

/* What a rank lacks makes the open fail on all. */
static ring_status lifecycle_agree(ring_comm *child, bool made, const char *what) {
  const int32_t lacking = made ? -1 : ring_comm_rank(child);
  int32_t most;
  ring_status status = ring_allreduce(child, &lacking, &most, 1, RING_INT32, RING_MAX);
  if (status != RING_OK || most < 0) return status;
  return ring_error_set(&child->error, RING_SYSTEM, most, 0, "rank %d (%s) has no %s for a device",
                        most, ring_comm_host(child, most), what);
}

/* The device inherits the hooks after the hub does: a hub's own waits end by its messages. */
static ring_status lifecycle_open(ring_device *device, const ring_device_options *options) {
  ring_status status = ring_device_hub_open(device);
  if (status != RING_OK) return status;
  device->comm->interrupt = lifecycle_interrupt;
  device->comm->interrupt_arg = device;
  status = ring_device_choose(device, options);
  if (status != RING_OK) return status;
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
  if (status == RING_OK) status = ring_comm_split(comm, 0, 0, &child);
  if (status != RING_OK) return status;
  ring_device *made = lifecycle_make(child);
  status = lifecycle_agree(child, made != NULL, "memory");
  if (status == RING_OK && made != NULL) status = lifecycle_open(made, options);
  if (status == RING_OK) {
    *device = made;
    return RING_OK;
  }
  comm->error = made != NULL && made->failed ? made->failure : *ring_comm_error(child);
  if (made == NULL) ring_comm_free(child);
  ring_device_free(made);
  return status;
}

/* ---- Ending -------------------------------------------------------------------------------- */

/* Frees what the GPU and the driver have. The communicator's memory goes with it. */
static void lifecycle_release(ring_device *device) {
  if (device->context == NULL) return;
  ring_device_push(device);
  ring_nccl_abort(device);
  ring_pinned_free(device);
  ring_kernels_free(device);
  ring_pending_free(device);
  ring_device_pop(device);
  if (device->retained) device->cuda.context_release(device->gpu);
  device->context = NULL;
}

/* Waits until no call is pending. */
static ring_status lifecycle_drain(ring_device *device) {
  ring_device_pause pause = {0};
  for (;;) {
    pthread_mutex_lock(&device->mutex);
    ring_pending_retire(device);
    bool rests = device->pending.count == 0;
    pthread_mutex_unlock(&device->mutex);
    if (device->failed) return ring_device_check(device);
    if (rests) return RING_OK;
    ring_status status = ring_device_rest(device, &pause, "close");
    if (status == RING_ABORTED && !device->failed)
      return ring_device_hub_report(device, ring_device_reason());
  }
}

static ring_status lifecycle_close(ring_device *device) {
  ring_status status = lifecycle_drain(device);
  if (status == RING_OK) status = ring_barrier(device->comm);
  if (status != RING_OK) {
    if (device->failed) return ring_device_check(device);
    return ring_device_hub_report(device, ring_comm_error(device->comm));
  }
  ring_watch_end(device); /* all ranks close: nothing is to be watched, and none may be lost */
  ring_nccl_close(device);
  status = ring_device_hub_close(device);
  if (status == RING_OK) status = ring_comm_close(device->comm);
  if (status != RING_OK && ring_device_reason()->status == RING_OK)
    *ring_device_reason() = *ring_comm_error(device->comm);
  device->closed = true;
  return status;
}

ring_status ring_device_close(ring_device *device) {
  ring_status status = ring_device_enter(device);
  if (status != RING_OK) return status;
  status = lifecycle_close(device);
  ring_device_leave(device, status);
  if (device->closed) lifecycle_release(device);
  return status;
}

void ring_device_abort(ring_device *device, const char *reason) {
  ring_error error;
  if (ring_device_check(device) != RING_OK) return;
  ring_error_set(&error, RING_ABORTED, device->rank, 0, "rank %d (%s) aborted its device: %s",
                 device->rank, device_host(device, device->rank),
                 reason != NULL && reason[0] != '\0' ? reason : "no reason was given");
  ring_device_hub_report(device, &error);
}

void ring_device_free(ring_device *device) {
  if (device == NULL) return;
  if (device->process == ring_platform_process()) {
    if (device->watched) ring_device_abort(device, "it freed the device without closing it");
    ring_watch_end(device);
    lifecycle_release(device);
    pthread_mutex_destroy(&device->mutex);
    pthread_cond_destroy(&device->stopped);
  }
  ring_device_hub_free(device);
  ring_comm_free(device->comm);
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
}

ring_status ring_device_explain(ring_device *device, ring_device_explanation *explanation) {
  ring_status status = ring_device_check(device);
  if (status != RING_OK) return status;
  if (explanation == NULL) return ring_device_invalid(device, "explain: explanation is NULL");
  const ring_pinned *pinned = &device->pinned;
  bool nccl = device->path == RING_DEVICE_NCCL;
  pthread_mutex_lock(&device->mutex);
  uint32_t calls = device->sequence;
  pthread_mutex_unlock(&device->mutex);
  *explanation = (ring_device_explanation){.path = device->path,
                                           .reason = device->reason,
                                           .gpu = device->gpu,
                                           .gpu_name = device->gpu_name,
                                           .nccl_version = nccl ? device->nccl_version : 0,
                                           .cuda_version = device->cuda_version,
                                           .page_locked = pinned->ready ? pinned->page_locked : -1,
                                           .calls = calls,
                                           .launches = atomic_load(&device->kernels.launches)};
  lifecycle_write(device, explanation);
  return RING_OK;
}
