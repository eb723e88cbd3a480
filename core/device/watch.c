/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch.h"

#include "base/error.h"
#include "base/platform.h"
#include "device/device_hub.h"
#include "device/nccl_comm.h"
#include "device/pending.h"

#define WATCH_BUSY_MS 2
#define WATCH_IDLE_MS 20

/* A send or a receive that is late: its peer is at fault. */
static void watch_blame_peer(ring_device *device, const ring_pending *late, double age) {
  ring_error error;
  bool sends = late->call.root == device->rank;
  ring_error_set(&error, RING_TIMEOUT, late->peer, 0,
                 "rank %d (%s) waited %.1f s on its GPU to %s %llu elements %s rank %d (%s), which "
                 "has not made the call or whose GPU does not run it",
                 device->rank, device_host(device, device->rank), age, sends ? "send" : "receive",
                 (unsigned long long)late->call.count, sends ? "to" : "from", late->peer,
                 device_host(device, late->peer));
  ring_device_hub_report(device, &error);
}

/* Whether CUDA's driver ends with the process, which a device that is not freed outlives. */
static bool watch_is_over(ring_cuda_result result) {
  return result == RING_CUDA_DEINITIALIZED || result == RING_CUDA_CONTEXT_IS_DESTROYED;
}

/* Checks the calls and NCCL. False at the end of the process. */
static bool watch_calls(ring_device *device) {
  ring_error error;
  ring_pending late;
  double age;
  ring_cuda_result result = ring_pending_retire(device);
  if (watch_is_over(result)) return false;
  if (result != RING_CUDA_SUCCESS)
    ring_device_hub_report_cuda(device, result, RING_DEVICE_GPU_WORK);
  else if (ring_nccl_check(device, &error))
    ring_device_hub_report(device, &error);
  else if (!ring_pending_late(device, &late, &age))
    return true;
  else if (late.peer >= 0)
    watch_blame_peer(device, &late, age);
  else
    ring_device_hub_report_late(device, &late.call, age);
  return true;
}

/* The hub comes first: CUDA may block a query while another thread waits for the GPU. */
static bool watch_turn(ring_device *device) {
  bool goes_on = true;
  ring_device_hub_poll(device);
  if (!device->failed) goes_on = watch_calls(device);
  if (device->failed) ring_detached_begin(&device->abort);
  return goes_on;
}

static bool watch_pause(ring_device *device) {
  pthread_mutex_lock(&device->mutex);
  int pause = device->pending.count > 0 && !device->failed ? WATCH_BUSY_MS : WATCH_IDLE_MS;
  if (!device->stops) ring_platform_condition_wait(&device->stopped, &device->mutex, pause);
  bool stops = device->stops;
  pthread_mutex_unlock(&device->mutex);
  return !stops;
}

static void *watch_main(void *arg) {
  ring_device *device = arg;
  ring_cuda_capture_mode mode;
  ring_cuda_result result = ring_device_push(device, &mode);
  if (result != RING_CUDA_SUCCESS) /* the device fails, so CUDA is not called */
    ring_device_hub_report_cuda(device, result, "cuCtxPushCurrent");
  while (watch_turn(device) && watch_pause(device)) continue;
  if (device->failed) ring_detached_begin(&device->abort);
  if (result == RING_CUDA_SUCCESS) ring_device_pop(device, mode);
  return NULL;
}

int ring_watch_begin(ring_device *device) {
  int code = ring_platform_thread(&device->watch, watch_main, device);
  device->watched = code == 0;
  return code;
}

void ring_watch_end(ring_device *device) {
  if (!device->watched) return;
  pthread_mutex_lock(&device->mutex);
  device->stops = true;
  pthread_cond_signal(&device->stopped);
  pthread_mutex_unlock(&device->mutex);
  pthread_join(device->watch, NULL);
  device->watched = false;
}
