/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wait.h"

#include "base/error.h"
#include "base/platform.h"

#define WAIT_SLICE_MS 100
#define WAIT_SLICE_NS (WAIT_SLICE_MS * UINT64_C(1000000))

/* A gap between two checks that is longer than this means that the process was suspended: a quarter of the
 * deadline, within these bounds. */
#define WAIT_ABSENCE_NS UINT64_C(1000000000)
#define WAIT_ABSENCE_LEAST_NS (3 * WAIT_SLICE_NS)

/* Nanoseconds since the last check that do not count as waiting. */
static uint64_t wait_absent(const ring_wait *wait, uint64_t now) {
  uint64_t since = now - wait->now, limit = wait->patience / 4;
  if (limit > WAIT_ABSENCE_NS) limit = WAIT_ABSENCE_NS;
  if (limit < WAIT_ABSENCE_LEAST_NS) limit = WAIT_ABSENCE_LEAST_NS;
  return since > limit ? since - limit / 2 : 0;
}

void ring_wait_prepare(ring_wait *wait, double seconds, ring_interrupt_fn interrupt, void *arg) {
  *wait = (ring_wait){
      .patience = (uint64_t)(seconds * 1e9), .interrupt = interrupt, .interrupt_arg = arg};
}

void ring_wait_begin(ring_wait *wait) {
  ring_wait_renew(wait);
  wait->asked = wait->begun;
  wait->away = 0;
}

void ring_wait_init(ring_wait *wait, double seconds, ring_interrupt_fn interrupt, void *arg) {
  ring_wait_prepare(wait, seconds, interrupt, arg);
  ring_wait_begin(wait);
}

void ring_wait_renew(ring_wait *wait) {
  uint64_t now = ring_platform_now();
  wait->warned = 0;
  wait->away += wait_absent(wait, now); /* bytes taken after a suspension came during it */
  wait->begun = wait->now = now;
  wait->deadline = wait->begun + wait->patience;
}

uint32_t ring_wait_left(const ring_wait *wait) {
  uint64_t now = ring_platform_now();
  uint64_t left = now < wait->deadline ? (wait->deadline - now) / 1000000 : 0;
  return left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
}

int ring_wait_slice(const ring_wait *wait) {
  uint64_t now = ring_platform_now();
  if (now >= wait->deadline) return 0;
  uint64_t left = (wait->deadline - now + 999999) / 1000000;
  return left < WAIT_SLICE_MS ? (int)left : WAIT_SLICE_MS;
}

ring_status ring_wait_check(ring_wait *wait) {
  uint64_t now = ring_platform_now(), absent = wait_absent(wait, now);
  wait->now = now;
  wait->away += absent;
  wait->begun += absent;
  wait->deadline += absent;
  if (ring_stop_is_set(wait->stop)) return RING_ABORTED;
  if (now - wait->asked >= WAIT_SLICE_NS) {
    long parent;
    wait->asked = now;
    if (wait->watch_parent && ring_platform_orphaned(&parent)) return RING_ABORTED;
    if (wait->interrupt != NULL && wait->interrupt(wait->interrupt_arg) != 0) return RING_ABORTED;
    if (ring_stop_is_set(wait->stop)) return RING_ABORTED; /* in the hook */
  }
  return now >= wait->deadline ? RING_TIMEOUT : RING_OK;
}

ring_status ring_wait_aborted(const ring_wait *wait, int rank, const char *call,
                              ring_error *error) {
  long parent;
  if (!wait->watch_parent || !ring_platform_orphaned(&parent))
    return ring_error_set(error, RING_ABORTED, rank, 0, "rank %d was interrupted during %s", rank,
                          call);
  return ring_error_set(
      error, RING_ABORTED, rank, 0,
      "rank %d was orphaned during %s: the process that started it (pid %ld) has "
      "ended, usually because the Spark executor died or was killed; no process is "
      "left to receive the result of this task",
      rank, call, parent);
}

bool ring_wait_lasts(ring_wait *wait) {
  const ring_alarm *alarm = wait->alarm;
  if (alarm == NULL || alarm->log == NULL || alarm->after == 0) return false;
  uint64_t lasted = ring_platform_now() - wait->begun;
  uint64_t due = wait->warned > 0 ? 2 * wait->warned : alarm->after;
  if (lasted < due) return false;
  while (2 * due <= lasted) due *= 2; /* no check for long */
  wait->warned = due;
  return true;
}

void ring_wait_warn(const ring_wait *wait, const char *message) {
  wait->alarm->log(wait->alarm->log_arg, message);
}

double ring_wait_seconds(const ring_wait *wait) {
  return (double)(ring_platform_now() - wait->begun) / 1e9;
}

bool ring_wait_is_old(const ring_wait *wait) {
  uint64_t now = ring_platform_now();
  return wait->begun != 0 && now - wait->begun - wait_absent(wait, now) >= wait->patience / 2;
}

bool ring_wait_was_away(const ring_wait *wait) {
  return wait->begun != 0 && (wait->away > 0 || wait_absent(wait, ring_platform_now()) > 0);
}

double ring_wait_absence(const ring_wait *wait) {
  uint64_t away = wait->away + wait_absent(wait, ring_platform_now());
  return away >= wait->patience / 2 ? (double)away / 1e9 : 0;
}
