/* SPDX-License-Identifier: Apache-2.0 */
#include "device/detached.h"

#include "base/platform.h"

#define DETACHED_SLICE_MS 100

void ring_detached_init(ring_detached *detached, void (*work)(void *arg), void *arg) {
  pthread_mutex_init(&detached->mutex, NULL);
  ring_platform_condition_init(&detached->changed);
  detached->work = work;
  detached->arg = arg;
}

static void *detached_main(void *arg) {
  ring_detached *detached = arg;
  detached->work(detached->arg);
  pthread_mutex_lock(&detached->mutex);
  detached->done = true;
  pthread_cond_broadcast(&detached->changed);
  pthread_mutex_unlock(&detached->mutex); /* which the last thread that waits may destroy now */
  return NULL;
}

void ring_detached_begin(ring_detached *detached) {
  pthread_t thread;
  pthread_mutex_lock(&detached->mutex);
  bool begun = detached->begun;
  detached->begun = true;
  pthread_mutex_unlock(&detached->mutex);
  if (begun) return;
  if (ring_platform_thread(&thread, detached_main, detached) == 0)
    pthread_detach(thread);
  else
    detached_main(detached);
}

bool ring_detached_await(ring_detached *detached, double seconds) {
  const uint64_t begun = ring_platform_now(), patience = (uint64_t)(1e9 * seconds);
  pthread_mutex_lock(&detached->mutex);
  while (detached->begun && !detached->done && ring_platform_now() - begun < patience)
    ring_platform_condition_wait(&detached->changed, &detached->mutex, DETACHED_SLICE_MS);
  bool done = !detached->begun || detached->done;
  pthread_mutex_unlock(&detached->mutex);
  return done;
}

void ring_detached_destroy(ring_detached *detached) {
  pthread_mutex_destroy(&detached->mutex);
  pthread_cond_destroy(&detached->changed);
}
