/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nccl_comm.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/platform.h"
#include "device/device_hub.h"

#define NCCL_GRACE_NS UINT64_C(1000000000) /* in which the hub finds the rank that was lost */
#define NCCL_PAUSE_NS 1000000
#define NCCL_INIT_SECONDS 120
#define NCCL_FINALIZE_SECONDS 30

static void nccl_pause(void) {
  const struct timespec time = {0, NCCL_PAUSE_NS};
  nanosleep(&time, NULL);
}

/* NCCL keeps the text of the last error of the process, perhaps of a communicator of another library. */
typedef struct nccl_last_error {
  char text[300];
} nccl_last_error;

static nccl_last_error nccl_read_last_error(const ring_device *device) {
  nccl_last_error last;
  const char *text = device->nccl.get_last_error(NULL);
  snprintf(last.text, sizeof last.text, "%s", text != NULL ? text : "");
  return last;
}

/* ---- Opening ------------------------------------------------------------------------------- */

/* Checks on an init that is in progress. False when this rank stops waiting. */
static bool nccl_init_goes_on(ring_device *device, ring_wait *wait, char *problem, size_t size) {
  ring_device_hub_poll(device);
  ring_status status = ring_wait_check(wait);
  if (device->failed || device->hub.nccl_refused) return false;
  if (status == RING_ABORTED) {
    ring_error error;
    ring_wait_aborted(wait, device->rank, "NCCL's init", &error);
    ring_device_hub_report(device, &error);
  } else if (status != RING_OK) {
    snprintf(problem, size, "ncclCommInitRankConfig did not end within %.1f s",
             ring_wait_seconds(wait));
  }
  return status == RING_OK;
}

static ring_nccl_result nccl_init(ring_device *device, const ring_nccl_unique_id *id, char *problem,
                                  size_t size) {
  const double half = device->call_timeout / 2;
  ring_wait wait;
  ring_nccl_config config = {sizeof config, RING_NCCL_CONFIG_MAGIC, RING_NCCL_CONFIG_VERSION, 0,
                             RING_NCCL_UNDEFINED};
  ring_device_begin_wait(device, half < NCCL_INIT_SECONDS ? half : NCCL_INIT_SECONDS, &wait);
  ring_nccl_result result =
      device->nccl.init(&device->nccl_made, device->size, *id, device->rank, &config);
  device->nccl_comm = device->nccl_made;
  while (device->nccl_comm != NULL &&
         (result == RING_NCCL_IN_PROGRESS || result == RING_NCCL_SUCCESS)) {
    ring_nccl_result asked = device->nccl.get_async_error(device->nccl_comm, &result);
    if (asked != RING_NCCL_SUCCESS) result = asked;
    if (result != RING_NCCL_IN_PROGRESS) break;
    if (!nccl_init_goes_on(device, &wait, problem, size)) break;
    nccl_pause();
  }
  return result;
}

bool ring_nccl_open(ring_device *device, const ring_nccl_unique_id *id, char *problem,
                    size_t size) {
  problem[0] = '\0';
  const nccl_last_error before = nccl_read_last_error(device);
  ring_nccl_result result = nccl_init(device, id, problem, size);
  if (result == RING_NCCL_SUCCESS && device->nccl_comm != NULL) return true;
  const nccl_last_error last = nccl_read_last_error(device);
  bool news = strcmp(before.text, last.text) != 0;
  if (problem[0] == '\0')
    snprintf(problem, size, "ncclCommInitRankConfig failed with %d (%s%s%s)", (int)result,
             device->nccl.get_error_string(result), news ? ": " : "", news ? last.text : "");
  if (device->hub.nccl_refused) problem[0] = '\0';
  ring_device_hub_refuse_nccl(device);
  ring_detached_begin(&device->abort);
  return false;
}

/* ---- Errors -------------------------------------------------------------------------------- */

/* An error that another rank or the network has caused reaches the hub, too, with the name of the rank. */
static bool nccl_is_remote(ring_nccl_result result) {
  return result == RING_NCCL_REMOTE_ERROR || result == RING_NCCL_SYSTEM_ERROR;
}

static void nccl_blame(const ring_device *device, ring_nccl_result result, const char *function,
                       ring_error *error) {
  bool remote = nccl_is_remote(result);
  ring_error_set(error, RING_SYSTEM, remote ? -1 : device->rank, 0,
                 "rank %d (%s): %s failed with %d (%s)%s. NCCL_DEBUG=WARN in the environment makes "
                 "NCCL log the reason",
                 device->rank, device_host(device, device->rank), function, (int)result,
                 device->nccl.get_error_string(result),
                 remote ? ", and no rank has been lost: the network may have failed" : "");
}

/* The state of the communicator. Called with the mutex of NCCL. */
static ring_nccl_result nccl_state(const ring_device *device) {
  ring_nccl_result result = RING_NCCL_SUCCESS;
  ring_nccl_result asked = device->nccl.get_async_error(device->nccl_comm, &result);
  return asked != RING_NCCL_SUCCESS ? asked : result;
}

bool ring_nccl_check(ring_device *device, ring_error *error) {
  ring_nccl_result result = RING_NCCL_SUCCESS;
  if (device->failed || device->path != RING_DEVICE_NCCL) return false;
  if (pthread_mutex_trylock(&device->nccl_mutex) != 0) return false; /* a call is being made */
  if (device->nccl_comm != NULL) result = nccl_state(device);
  pthread_mutex_unlock(&device->nccl_mutex);
  if (result == RING_NCCL_SUCCESS || result == RING_NCCL_IN_PROGRESS) return false;
  uint64_t now = ring_platform_now();
  if (device->nccl_failed == 0) device->nccl_failed = now;
  if (nccl_is_remote(result) && now - device->nccl_failed < NCCL_GRACE_NS) return false;
  nccl_blame(device, result, "a call of NCCL", error);
  return true;
}

/* The result of a call in progress. It stays in progress when another thread ends the communicator. */
static ring_nccl_result nccl_poll(ring_device *device) {
  ring_nccl_result result = RING_NCCL_IN_PROGRESS;
  pthread_mutex_lock(&device->nccl_mutex);
  if (device->nccl_comm != NULL) result = nccl_state(device);
  pthread_mutex_unlock(&device->nccl_mutex);
  return result;
}

ring_status ring_nccl_complete(ring_device *device, ring_nccl_result result, const char *function) {
  ring_device_pause pause = {0};
  ring_error error;
  while (result == RING_NCCL_IN_PROGRESS) {
    ring_status status = ring_device_pause_once(device, &pause, "a call of NCCL");
    if (status == RING_ABORTED && !device->failed)
      return ring_device_hub_report(device, ring_device_reason());
    if (status != RING_OK) return status;
    result = nccl_poll(device);
  }
  if (result == RING_NCCL_SUCCESS) return RING_OK;
  for (uint64_t begun = ring_platform_now();
       nccl_is_remote(result) && !device->failed && ring_platform_now() - begun < NCCL_GRACE_NS;)
    nccl_pause(); /* the watch thread polls the hub */
  nccl_blame(device, result, function, &error);
  return ring_device_hub_report(device, &error);
}

/* ---- Ending -------------------------------------------------------------------------------- */

ring_status ring_nccl_finalize(ring_device *device) {
  ring_wait wait;
  ring_nccl_result result = RING_NCCL_SUCCESS;
  if (device->path != RING_DEVICE_NCCL) return ring_device_check(device);
  ring_device_begin_wait(device, NCCL_FINALIZE_SECONDS, &wait);
  pthread_mutex_lock(&device->nccl_mutex);
  if (device->nccl_comm != NULL) result = device->nccl.finalize(device->nccl_comm);
  pthread_mutex_unlock(&device->nccl_mutex);
  while (result == RING_NCCL_IN_PROGRESS && !device->failed && ring_wait_check(&wait) == RING_OK) {
    nccl_pause();
    result = nccl_poll(device);
  }
  pthread_mutex_lock(&device->nccl_mutex);
  device->nccl_finalized = result == RING_NCCL_SUCCESS;
  pthread_mutex_unlock(&device->nccl_mutex);
  return ring_device_check(device);
}

void ring_nccl_end(void *arg) {
  ring_device *device = arg;
  pthread_mutex_lock(&device->nccl_mutex);
  ring_nccl_comm comm = device->nccl_comm;
  bool finalized = device->nccl_finalized;
  device->nccl_comm = NULL;
  pthread_mutex_unlock(&device->nccl_mutex);
  if (comm == NULL) return;
  if (finalized)
    device->nccl.destroy(comm);
  else
    device->nccl.abort(comm);
}
