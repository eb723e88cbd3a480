/* SPDX-License-Identifier: Apache-2.0 */
#include "wait.h"

#include "platform.h"

#define WAIT_SLICE_MS 100
#define WAIT_SLICE_NS (WAIT_SLICE_MS * UINT64_C(1000000))

void ring_wait_prepare(ring_wait *wait, double seconds, ring_interrupt_fn interrupt, void *arg) {
  *wait = (ring_wait){
      .patience = (uint64_t)(seconds * 1e9), .interrupt = interrupt, .interrupt_arg = arg};
}

void ring_wait_begin(ring_wait *wait) {
  ring_wait_renew(wait);
  wait->asked = wait->begun;
}

void ring_wait_init(ring_wait *wait, double seconds, ring_interrupt_fn interrupt, void *arg) {
  ring_wait_prepare(wait, seconds, interrupt, arg);
  ring_wait_begin(wait);
}

void ring_wait_renew(ring_wait *wait) {
  wait->told = 0;
  wait->begun = ring_platform_now();
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
  uint64_t now = ring_platform_now();
  if (wait->stop != NULL && atomic_load(wait->stop)) return RING_ABORTED;
  if (wait->interrupt != NULL && now - wait->asked >= WAIT_SLICE_NS) {
    wait->asked = now;
    if (wait->interrupt(wait->interrupt_arg) != 0) return RING_ABORTED;
  }
  return now >= wait->deadline ? RING_TIMEOUT : RING_OK;
}

bool ring_wait_lasts(ring_wait *wait) {
  const ring_alarm *alarm = wait->alarm;
  if (alarm == NULL || alarm->log == NULL || alarm->after == 0) return false;
  uint64_t lasted = ring_platform_now() - wait->begun;
  uint64_t due = wait->told > 0 ? 2 * wait->told : alarm->after;
  if (lasted < due) return false;
  while (2 * due <= lasted) due *= 2; /* nobody looked for long */
  wait->told = due;
  return true;
}

void ring_wait_tell(const ring_wait *wait, const char *message) {
  wait->alarm->log(wait->alarm->log_arg, message);
}

double ring_wait_seconds(const ring_wait *wait) {
  return (double)(ring_platform_now() - wait->begun) / 1e9;
}
