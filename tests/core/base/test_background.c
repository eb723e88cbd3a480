/* SPDX-License-Identifier: Apache-2.0
 *
 * Background work: a sleep calls the function again and again, still lasts as long as it may, and ends when a descriptor is
 * ready.
 */
#include "base/background.h"

#include <unistd.h>

#include "base/platform.h"
#include "base/poll_set.h"
#include "check.h"

static int calls;
static int awaited_end = -1;

static void count(void) {
  calls++;
  if (calls == 3 && awaited_end >= 0) CHECK_INT(write(awaited_end, "", 1), 1);
}

static void nothing_without_a_function(void) {
  CHECK_INT(ring_background_work(100), 100);
  CHECK_INT(ring_background_work(-1), -1);
}

static void sleeps_call_it(void) {
  ring_poll_set poll_set = {0};
  ring_poll_set_reset(&poll_set);
  ring_background_set(count);
  uint64_t begun = ring_platform_now();
  CHECK_INT(ring_poll_set_sleep(&poll_set, 20), RING_OK);
  CHECK(ring_platform_now() - begun >= 20 * UINT64_C(1000000));
  CHECK(calls > 1);
  calls = 0;
  CHECK_INT(ring_poll_set_sleep(&poll_set, 0), RING_OK);
  CHECK_INT(calls, 0);
  ring_background_set(NULL);
  ring_poll_set_fini(&poll_set);
}

/* The function brings about what an endless sleep waits for. */
static void sleeps_end(void) {
  ring_poll_set poll_set = {0};
  int ends[2];
  CHECK_INT(pipe(ends), 0);
  awaited_end = ends[1];
  calls = 0;
  ring_background_set(count);
  ring_poll_set_reset(&poll_set);
  size_t slot = ring_poll_set_add(&poll_set, ends[0], POLLIN);
  CHECK_INT(ring_poll_set_sleep(&poll_set, -1), RING_OK);
  CHECK(ring_poll_set_ready(&poll_set, slot));
  ring_background_set(NULL);
  ring_poll_set_fini(&poll_set);
  close(ends[0]);
  close(ends[1]);
}

int main(void) {
  RUN(nothing_without_a_function);
  RUN(sleeps_call_it);
  RUN(sleeps_end);
  return 0;
}
