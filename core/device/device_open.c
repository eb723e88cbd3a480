/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device_open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/comm_lifecycle.h"
#include "base/error.h"
#include "device/device_hub.h"
#include "device/kernels.h"
#include "device/nccl_comm.h"

/* The facts of a rank that all ranks get; "" is no problem. */
typedef struct open_report {
  int32_t path; /* its option */
  int32_t nccl_version;
  char cuda[256];
  char nccl[256];
  char kernels[256];
} open_report;

/* ---- This rank ----------------------------------------------------------------------------- */

/* The number of the GPU: that of the caller, that of the calling thread's context, or that of the rank on its host. */
static ring_cuda_result open_number(const ring_device *device, int *number, const char **function) {
  const ring_cuda *cuda = &device->cuda;
  ring_cuda_context current = NULL;
  ring_cuda_gpu gpu;
  int count = 0;
  if (*number >= 0) return RING_CUDA_SUCCESS;
  *function = "cuCtxGetCurrent";
  ring_cuda_result result = cuda->context_current(&current);
  if (result == RING_CUDA_SUCCESS && current != NULL) {
    *function = "cuCtxGetDevice";
    result = cuda->context_gpu(&gpu);
    *number = (int)gpu;
    return result;
  }
  *function = "cuDeviceGetCount";
  if (result == RING_CUDA_SUCCESS) result = cuda->gpu_count(&count);
  *number = count > 0 ? ring_comm_local_rank(device->comm) % count : 0;
  return result;
}

static ring_cuda_result open_context(ring_device *device, int number, const char **function) {
  const ring_cuda *cuda = &device->cuda;
  ring_cuda_result result = open_number(device, &number, function);
  if (result != RING_CUDA_SUCCESS) return result;
  *function = "cuDeviceGet";
  result = cuda->gpu_get(&device->gpu, number);
  if (result != RING_CUDA_SUCCESS) return result;
  *function = "cuDevicePrimaryCtxRetain";
  result = cuda->context_retain(&device->context, device->gpu);
  if (result != RING_CUDA_SUCCESS) device->context = NULL;
  return result;
}

/* NCCL's threads use the primary context. The streams of another one are none there. */
static bool open_is_primary(const ring_device *device) {
  ring_cuda_context current = NULL;
  ring_cuda_gpu gpu;
  const ring_cuda *cuda = &device->cuda;
  if (cuda->context_current(&current) != RING_CUDA_SUCCESS || current == NULL) return true;
  if (current == device->context || cuda->context_gpu(&gpu) != RING_CUDA_SUCCESS) return true;
  return gpu != device->gpu;
}

static void open_gpu(ring_device *device, const ring_device_options *options, open_report *report) {
  const char *function = "cuDeviceGet";
  if (!ring_cuda_load(&device->cuda, options->cuda, report->cuda, sizeof report->cuda)) return;
  ring_cuda_result result = open_context(device, options->gpu, &function);
  if (result != RING_CUDA_SUCCESS) {
    snprintf(report->cuda, sizeof report->cuda, "%s failed with %d (%s)", function, (int)result,
             ring_cuda_text(&device->cuda, result));
    return;
  }
  if (!open_is_primary(device))
    snprintf(report->cuda, sizeof report->cuda,
             "the current CUDA context is not the primary one of GPU %d: make that one current",
             (int)device->gpu);
  device->cuda.gpu_name(device->gpu_name, sizeof device->gpu_name - 1, device->gpu);
  device->cuda.driver_version(&device->cuda_version);
}

static void open_kernels(ring_device *device, const ring_device_options *options,
                         open_report *report) {
  ring_cuda_capture_mode mode;
  if (report->cuda[0] != '\0') return;
  ring_cuda_result result = ring_device_push(device, &mode);
  if (result != RING_CUDA_SUCCESS) {
    snprintf(report->kernels, sizeof report->kernels, "cuCtxPushCurrent failed with %d",
             (int)result);
    return;
  }
  ring_kernels_open(device, options->nvrtc, report->kernels, sizeof report->kernels);
  ring_device_pop(device, mode);
}

static void open_nccl(ring_device *device, const ring_device_options *options,
                      open_report *report) {
  if (options->path == RING_DEVICE_HOST || report->cuda[0] != '\0') return;
  if (ring_nccl_load(&device->nccl, options->nccl, &device->nccl_version, report->nccl,
                     sizeof report->nccl))
    report->nccl_version = device->nccl_version;
}

/* ---- All ranks ----------------------------------------------------------------------------- */

/* Whether every text of a report has an end. */
static bool open_is_report(const open_report *report) {
  return memchr(report->cuda, '\0', sizeof report->cuda) != NULL &&
         memchr(report->nccl, '\0', sizeof report->nccl) != NULL &&
         memchr(report->kernels, '\0', sizeof report->kernels) != NULL;
}

static ring_status open_exchange(const ring_device *device, const open_report *own,
                                 open_report *all) {
  ring_status status = ring_allgather(device->comm, own, all, sizeof *own, RING_UINT8);
  for (int rank = 0; status == RING_OK && rank < device->size; rank++)
    if (!open_is_report(&all[rank]))
      status =
          ring_comm_accuse(device->comm, rank, "a device's report with a text that has no end");
  if (status == RING_OK) all[device->rank] = *own; /* others may have passed another on */
  return status;
}

/* The reports of all ranks, to be freed; NULL with the error of the communicator. */
static open_report *open_gather(ring_device *device, const open_report *own) {
  open_report *all = calloc((size_t)device->size, sizeof *all);
  if (all == NULL) ring_error_no_memory(&device->comm->error, device->rank);
  if (all == NULL) ring_comm_abort(device->comm, "it is out of memory");
  if (all != NULL && open_exchange(device, own, all) != RING_OK) {
    free(all);
    return NULL;
  }
  return all;
}

/* The problems that make the open fail on all ranks. */
static ring_status open_check(ring_device *device, const open_report *all) {
  for (int rank = 0; rank < device->size; rank++) {
    if (all[rank].path != all[0].path)
      return ring_error_set(&device->comm->error, RING_MISMATCH, rank, 0,
                            "rank %d (%s) opens a device with the path %d, rank 0 (%s) with %d",
                            rank, device_host(device, rank), (int)all[rank].path,
                            device_host(device, 0), (int)all[0].path);
    if (all[rank].cuda[0] != '\0')
      return ring_error_set(&device->comm->error, RING_UNSUPPORTED, rank, 0,
                            "rank %d (%s) has no GPU for a device: %s. Install the driver of "
                            "NVIDIA there, or use the collectives of the communicator on memory "
                            "of the host",
                            rank, device_host(device, rank), all[rank].cuda);
  }
  return RING_OK;
}

/* The first rank that cannot use NCCL; -1: none. Its reason becomes the device's. */
static int open_find_lacking(ring_device *device, const open_report *all) {
  char one[RING_NCCL_VERSION_TEXT], other[RING_NCCL_VERSION_TEXT];
  for (int rank = 0; rank < device->size; rank++) {
    if (all[rank].nccl[0] == '\0') continue;
    snprintf(device->reason, sizeof device->reason, "rank %d (%s) cannot use NCCL: %s", rank,
             device_host(device, rank), all[rank].nccl);
    return rank;
  }
  for (int rank = 1; rank < device->size; rank++) {
    if (all[rank].nccl_version == all[0].nccl_version) continue;
    ring_nccl_version(all[rank].nccl_version, one);
    ring_nccl_version(all[0].nccl_version, other);
    snprintf(device->reason, sizeof device->reason,
             "rank %d (%s) has NCCL %s, and rank 0 (%s) has %s: install the same on all hosts",
             rank, device_host(device, rank), one, device_host(device, 0), other);
    return rank;
  }
  return -1;
}

/* All ranks use kernels, or none. */
static void open_find_kernels(ring_device *device, const open_report *all) {
  for (int rank = 0; rank < device->size; rank++) {
    if (all[rank].kernels[0] == '\0') continue;
    snprintf(device->kernels.lacking, sizeof device->kernels.lacking,
             "rank %d (%.60s) has no kernels: %s", rank, device_host(device, rank),
             all[rank].kernels);
    return;
  }
}

/* Without NCCL: the host's path, which rank 0 reports to its log, unless the user wants NCCL. */
static ring_status open_without(ring_device *device, const ring_device_options *options, int rank) {
  const ring_alarm *alarm = &device->comm->alarm;
  char text[sizeof device->reason + 100];
  device->path = RING_DEVICE_HOST;
  snprintf(text, sizeof text, "arrays on GPUs go through the host, which is slow: %s",
           device->reason);
  if (options->path != RING_DEVICE_NCCL && device->rank == 0 && alarm->log != NULL)
    alarm->log(alarm->log_arg, text);
  if (options->path != RING_DEVICE_NCCL) return RING_OK;
  return ring_error_set(&device->comm->error, RING_UNSUPPORTED, rank, 0,
                        "%s. The path RING_DEVICE_AUTO would go through the host", device->reason);
}

static void open_make(ring_device *device, const ring_nccl_unique_id *id, open_report *report) {
  ring_cuda_capture_mode mode;
  ring_cuda_result result = ring_device_push(device, &mode);
  if (result != RING_CUDA_SUCCESS) {
    snprintf(report->nccl, sizeof report->nccl, "cuCtxPushCurrent failed with %d", (int)result);
    ring_device_hub_refuse_nccl(device);
    return;
  }
  ring_nccl_open(device, id, report->nccl, sizeof report->nccl);
  ring_device_pop(device, mode);
}

static ring_status open_init(ring_device *device, const ring_device_options *options) {
  ring_nccl_unique_id id;
  open_report own = {.path = (int32_t)options->path};
  ring_status status = ring_nccl_id(device->comm, options->nccl, &id);
  if (status == RING_UNSUPPORTED) {
    snprintf(device->reason, sizeof device->reason, "%.511s",
             ring_comm_error(device->comm)->message);
    return open_without(device, options, 0);
  }
  if (status != RING_OK) return status;
  open_make(device, &id, &own);
  if (device->failed) {
    device->comm->error = device->failure;
    return device->failure.status;
  }
  open_report *all = open_gather(device, &own);
  if (all == NULL) return ring_comm_error(device->comm)->status;
  int lacking = open_find_lacking(device, all);
  free(all);
  if (lacking < 0) {
    device->path = RING_DEVICE_NCCL;
    return RING_OK;
  }
  ring_detached_begin(&device->abort);
  return open_without(device, options, lacking);
}

/* The host's path although ranks may have NCCL: the user wants that, or encryption. The same on every rank. */
static bool open_prefers_host(ring_device *device, const ring_device_options *options) {
  if (options->path == RING_DEVICE_HOST) {
    snprintf(device->reason, sizeof device->reason, "the path RING_DEVICE_HOST was asked for");
    return true;
  }
  if (options->path == RING_DEVICE_NCCL || !ring_comm_encrypted(device->comm) ||
      device->comm->topology.hosts < 2)
    return false;
  snprintf(device->reason, sizeof device->reason,
           "the communicator encrypts its traffic between hosts, which NCCL does not: pass "
           "RING_DEVICE_NCCL to let NCCL send it in plain");
  return true;
}

ring_status ring_device_choose(ring_device *device, const ring_device_options *options) {
  open_report own = {.path = (int32_t)options->path};
  open_gpu(device, options, &own);
  open_kernels(device, options, &own);
  open_nccl(device, options, &own);
  open_report *all = open_gather(device, &own);
  if (all == NULL) return ring_comm_error(device->comm)->status;
  ring_status status = open_check(device, all);
  int lacking = open_find_lacking(device, all);
  open_find_kernels(device, all);
  free(all);
  if (status != RING_OK) return status;
  if (open_prefers_host(device, options)) {
    device->path = RING_DEVICE_HOST;
    return RING_OK;
  }
  return lacking >= 0 ? open_without(device, options, lacking) : open_init(device, options);
}
