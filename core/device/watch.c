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

static void watch_gpu_failed(ring_device *device, ring_cuda_result result) {
  ring_error error;
  ring_error_set(&error, RING_SYSTEM, device->rank, 0,
                 "rank %d (%s): the GPU failed with %d (%s), in this or an earlier kernel of the "
                 "process",
                 device->rank, device_host(device, device->rank), (int)result,
                 ring_cuda_text(&device->cuda, result));
  ring_device_hub_report(device, &error);
}

/* Looks at the calls and at NCCL. */
static void watch_calls(ring_device *device) {
  ring_error error;
  ring_pending late = {.peer = -1};
  pthread_mutex_lock(&device->mutex);
  ring_cuda_result result = ring_pending_retire(device);
  const ring_pending *oldest = ring_pending_late(device);
  if (oldest != NULL) late = *oldest;
  double age = ring_pending_age(device);
  bool failed = ring_nccl_check(device, &error);
  pthread_mutex_unlock(&device->mutex);
  if (result != RING_CUDA_SUCCESS)
    watch_gpu_failed(device, result);
  else if (failed)
    ring_device_hub_report(device, &error);
  else if (oldest != NULL && late.peer >= 0)
    watch_blame_peer(device, &late, age);
  else if (oldest != NULL)
    ring_device_hub_complain(device, &late.call, age);
}

static void watch_turn(ring_device *device) {
  ring_device_hub_poll(device);
  if (!device->failed) watch_calls(device);
  if (!device->failed || device->released) return;
  ring_nccl_abort(device);
  device->released = true;
}

/* A user's thread may capture a graph: queries of this thread shall not end that. */
static void *watch_main(void *arg) {
  ring_device *device = arg;
  ring_cuda_capture_mode mode = RING_CUDA_CAPTURE_MODE_RELAXED;
  ring_device_push(device);
  device->cuda.capture_mode(&mode);
  for (bool stops = false; !stops;) {
    watch_turn(device);
    pthread_mutex_lock(&device->mutex);
    int pause = device->pending.count > 0 && !device->failed ? WATCH_BUSY_MS : WATCH_IDLE_MS;
    if (!device->stops) ring_platform_condition_wait(&device->stopped, &device->mutex, pause);
    stops = device->stops;
    pthread_mutex_unlock(&device->mutex);
  }
  if (device->failed) watch_turn(device);
  ring_device_pop(device);
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
