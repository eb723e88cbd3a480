/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device_open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/device_hub.h"
#include "device/nccl_comm.h"

/* What a rank tells the others: "" is no problem. */
typedef struct open_report {
  int32_t path; /* its option */
  char cuda[256];
  char nccl[256];
} open_report;

/* ---- This rank ----------------------------------------------------------------------------- */

/* The context of the calling thread, or the primary context of a GPU. */
static ring_cuda_result open_context(ring_device *device, int gpu, const char **function) {
  const ring_cuda *cuda = &device->cuda;
  ring_cuda_context current = NULL;
  *function = "cuCtxGetCurrent";
  ring_cuda_result result = gpu < 0 ? cuda->context_current(&current) : RING_CUDA_SUCCESS;
  if (result == RING_CUDA_SUCCESS && current != NULL) {
    device->context = current;
    *function = "cuCtxGetDevice";
    return cuda->context_gpu(&device->gpu);
  }
  *function = "cuDeviceGet";
  if (result == RING_CUDA_SUCCESS) result = cuda->gpu_get(&device->gpu, gpu < 0 ? 0 : gpu);
  if (result != RING_CUDA_SUCCESS) return result;
  *function = "cuDevicePrimaryCtxRetain";
  result = cuda->context_retain(&device->context, device->gpu);
  device->retained = result == RING_CUDA_SUCCESS;
  return result;
}

static void open_gpu(ring_device *device, const ring_device_options *options, open_report *report) {
  const char *function;
  if (!ring_cuda_load(&device->cuda, options->cuda, report->cuda, sizeof report->cuda)) return;
  ring_cuda_result result = open_context(device, options->gpu, &function);
  if (result != RING_CUDA_SUCCESS) {
    snprintf(report->cuda, sizeof report->cuda, "%s failed with %d (%s)", function, (int)result,
             ring_cuda_text(&device->cuda, result));
    device->context = NULL;
    return;
  }
  device->cuda.gpu_name(device->gpu_name, sizeof device->gpu_name - 1, device->gpu);
  device->cuda.driver_version(&device->cuda_version);
}

static void open_nccl(ring_device *device, const ring_device_options *options,
                      open_report *report) {
  if (options->path == RING_DEVICE_HOST || report->cuda[0] != '\0') return;
  if (ring_nccl_load(&device->nccl, options->nccl, report->nccl, sizeof report->nccl))
    device->nccl.get_version(&device->nccl_version);
}

/* ---- All ranks ----------------------------------------------------------------------------- */

/* The reports of all ranks, to be freed; NULL with the error of the communicator. */
static open_report *open_gather(ring_device *device, const open_report *own) {
  open_report *all = calloc((size_t)device->size, sizeof *all);
  if (all == NULL) ring_error_no_memory(&device->comm->error, device->rank);
  if (all == NULL) ring_comm_abort(device->comm, "it is out of memory");
  if (all != NULL && ring_allgather(device->comm, own, all, sizeof *own, RING_UINT8) != RING_OK) {
    free(all);
    return NULL;
  }
  return all;
}

/* What makes the open fail on all ranks. */
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
  for (int rank = 0; rank < device->size; rank++) {
    if (all[rank].nccl[0] == '\0') continue;
    snprintf(device->reason, sizeof device->reason, "rank %d (%s) cannot use NCCL: %s", rank,
             device_host(device, rank), all[rank].nccl);
    return rank;
  }
  return -1;
}

/* Without NCCL: the host's path, unless the user wants NCCL. */
static ring_status open_without(ring_device *device, const ring_device_options *options, int rank) {
  device->path = RING_DEVICE_HOST;
  if (options->path != RING_DEVICE_NCCL) return RING_OK;
  return ring_error_set(&device->comm->error, RING_UNSUPPORTED, rank, 0,
                        "%s. The path "
                        "RING_DEVICE_AUTO would go through the host",
                        device->reason);
}

/* A rank whose init has failed because another rank gave up does not report that as its own reason. */
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
  ring_device_push(device);
  bool made = ring_nccl_open(device, &id, own.nccl, sizeof own.nccl);
  ring_device_pop(device);
  if (device->failed) {
    device->comm->error = device->failure;
    return device->failure.status;
  }
  if (device->hub.gives_up) own.nccl[0] = '\0';
  if (!made) ring_device_hub_give_up(device);
  open_report *all = open_gather(device, &own);
  if (all == NULL) return ring_comm_error(device->comm)->status;
  int lacking = open_find_lacking(device, all);
  free(all);
  if (lacking < 0) {
    device->path = RING_DEVICE_NCCL;
    return RING_OK;
  }
  ring_nccl_abort(device);
  return open_without(device, options, lacking);
}

/* What NCCL could do goes through the host: the user wants that, or encryption. The same on every rank. */
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
  open_nccl(device, options, &own);
  open_report *all = open_gather(device, &own);
  if (all == NULL) return ring_comm_error(device->comm)->status;
  ring_status status = open_check(device, all);
  int lacking = open_find_lacking(device, all);
  free(all);
  if (status != RING_OK) return status;
  if (open_prefers_host(device, options)) {
    device->path = RING_DEVICE_HOST;
    return RING_OK;
  }
  return lacking >= 0 ? open_without(device, options, lacking) : open_init(device, options);
}
