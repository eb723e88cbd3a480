/* SPDX-License-Identifier: Apache-2.0 */
#include "base/background.h"

#include <stdatomic.h>
#include <stddef.h>

#define BACKGROUND_MS 1

static _Atomic(void (*)(void)) background_function;

void ring_background_set(void (*work)(void)) {
  atomic_store(&background_function, work);
}

int ring_background_work(int milliseconds) {
  void (*work)(void) = atomic_load_explicit(&background_function, memory_order_acquire);
  if (work == NULL || milliseconds == 0) return milliseconds;
  work();
  return milliseconds < 0 || milliseconds > BACKGROUND_MS ? BACKGROUND_MS : milliseconds;
}
