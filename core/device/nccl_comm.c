/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nccl_comm.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/platform.h"
#include "device/device_hub.h"

#define NCCL_GRACE_NS UINT64_C(1000000000) /* in which the hub finds the rank that was lost */
#define NCCL_POLL_NS 1000000

static void nccl_doze(void) {
  const struct timespec doze = {0, NCCL_POLL_NS};
  nanosleep(&doze, NULL);
}

/* Text of a result, with the reason that NCCL has logged. */
static void nccl_describe(const ring_device *device, ring_nccl_result result, const char *function,
                          char *text, size_t size) {
  const char *last = device->nccl.get_last_error(NULL);
  snprintf(text, size, "%s failed with %d (%s%s%.300s)", function, (int)result,
           device->nccl.get_error_string(result), last != NULL && last[0] != '\0' ? ": " : "",
           last != NULL ? last : "");
}

/* ---- Opening ------------------------------------------------------------------------------- */

/* One look at an init that is in progress. False when this rank stops waiting. */
static bool nccl_init_goes_on(ring_device *device, ring_wait *wait, char *problem, size_t size) {
  ring_device_hub_poll(device);
  ring_status status = ring_wait_check(wait);
  if (device->failed) {
    snprintf(problem, size, "%s", device->failure.message);
  } else if (device->hub.gives_up) {
    snprintf(problem, size, "another rank cannot use NCCL");
  } else if (status == RING_ABORTED) {
    ring_error error;
    ring_wait_aborted(wait, device->rank, "NCCL's init", &error);
    ring_device_hub_report(device, &error);
    snprintf(problem, size, "%s", error.message);
  } else if (status != RING_OK) {
    snprintf(problem, size, "ncclCommInitRankConfig did not end within %.1f s",
             ring_wait_seconds(wait));
  } else {
    return true;
  }
  return false;
}

bool ring_nccl_open(ring_device *device, const ring_nccl_unique_id *id, char *problem,
                    size_t size) {
  const char *function = "ncclCommInitRankConfig";
  ring_wait wait;
  ring_nccl_config config = {sizeof config, RING_NCCL_CONFIG_MAGIC, RING_NCCL_CONFIG_VERSION, 0,
                             RING_NCCL_UNDEFINED};
  ring_wait_init(&wait, device->call_timeout, device->interrupt, device->interrupt_arg);
  problem[0] = '\0';
  ring_nccl_result result =
      device->nccl.init(&device->nccl_comm, device->size, *id, device->rank, &config);
  while (device->nccl_comm != NULL &&
         (result == RING_NCCL_IN_PROGRESS || result == RING_NCCL_SUCCESS)) {
    ring_nccl_result asked = device->nccl.get_async_error(device->nccl_comm, &result);
    if (asked != RING_NCCL_SUCCESS) result = asked;
    if (result != RING_NCCL_IN_PROGRESS) break;
    if (!nccl_init_goes_on(device, &wait, problem, size)) break;
    nccl_doze();
  }
  if (result == RING_NCCL_SUCCESS && device->nccl_comm != NULL) return true;
  if (problem[0] == '\0') nccl_describe(device, result, function, problem, size);
  ring_nccl_abort(device);
  return false;
}

/* ---- Errors -------------------------------------------------------------------------------- */

/* An error that another rank has caused reaches the hub, too, with the name of the rank. */
static bool nccl_is_remote(ring_nccl_result result) {
  return result == RING_NCCL_REMOTE_ERROR || result == RING_NCCL_SYSTEM_ERROR;
}

static void nccl_blame(const ring_device *device, ring_nccl_result result, const char *function,
                       ring_error *error) {
  char text[512];
  nccl_describe(device, result, function, text, sizeof text);
  ring_error_set(error, RING_SYSTEM, device->rank, 0,
                 "rank %d (%s): %s. NCCL_DEBUG=WARN in the environment tells more", device->rank,
                 device_host(device, device->rank), text);
}

bool ring_nccl_check(ring_device *device, ring_error *error) {
  ring_nccl_result result = RING_NCCL_SUCCESS;
  if (device->nccl_comm == NULL || device->failed) return false;
  ring_nccl_result asked = device->nccl.get_async_error(device->nccl_comm, &result);
  if (asked != RING_NCCL_SUCCESS) result = asked;
  if (result == RING_NCCL_SUCCESS || result == RING_NCCL_IN_PROGRESS) return false;
  uint64_t now = ring_platform_now();
  if (device->nccl_failed == 0) device->nccl_failed = now;
  if (nccl_is_remote(result) && now - device->nccl_failed < NCCL_GRACE_NS) return false;
  nccl_blame(device, result, "a call of NCCL", error);
  return true;
}

/* What a call in progress has become. */
static ring_nccl_result nccl_poll(ring_device *device) {
  ring_nccl_result result = RING_NCCL_IN_PROGRESS;
  pthread_mutex_lock(&device->mutex);
  if (device->nccl_comm != NULL) {
    ring_nccl_result asked = device->nccl.get_async_error(device->nccl_comm, &result);
    if (asked != RING_NCCL_SUCCESS) result = asked;
  }
  pthread_mutex_unlock(&device->mutex);
  return result;
}

ring_status ring_nccl_settle(ring_device *device, ring_nccl_result result, const char *function) {
  ring_device_pause pause = {0};
  ring_error error;
  while (result == RING_NCCL_IN_PROGRESS) {
    ring_status status = ring_device_rest(device, &pause, "a call of NCCL");
    if (status == RING_ABORTED && !device->failed)
      return ring_device_hub_report(device, ring_device_reason());
    if (status != RING_OK) return status;
    result = nccl_poll(device);
  }
  if (result == RING_NCCL_SUCCESS) return RING_OK;
  for (uint64_t begun = ring_platform_now();
       nccl_is_remote(result) && !device->failed && ring_platform_now() - begun < NCCL_GRACE_NS;)
    nccl_doze(); /* the watch thread polls the hub */
  nccl_blame(device, result, function, &error);
  return ring_device_hub_report(device, &error);
}

/* ---- Ending -------------------------------------------------------------------------------- */

static ring_nccl_comm nccl_take(ring_device *device) {
  pthread_mutex_lock(&device->mutex);
  ring_nccl_comm comm = device->nccl_comm;
  device->nccl_comm = NULL;
  pthread_mutex_unlock(&device->mutex);
  return comm;
}

void ring_nccl_abort(ring_device *device) {
  ring_nccl_comm comm = nccl_take(device);
  if (comm != NULL) device->nccl.abort(comm);
}

void ring_nccl_close(ring_device *device) {
  ring_wait wait;
  ring_nccl_comm comm = nccl_take(device);
  if (comm == NULL) return;
  ring_wait_init(&wait, device->call_timeout, NULL, NULL);
  ring_nccl_result result = device->nccl.finalize(comm);
  while (result == RING_NCCL_IN_PROGRESS && ring_wait_check(&wait) == RING_OK) {
    nccl_doze();
    if (device->nccl.get_async_error(comm, &result) != RING_NCCL_SUCCESS) break;
  }
  if (result == RING_NCCL_SUCCESS)
    device->nccl.destroy(comm);
  else
    device->nccl.abort(comm);
}
