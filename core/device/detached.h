/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that CUDA or NCCL may never end, on a thread of its own. Other threads wait for it with a bound: on `changed`,
 * until `done`, which is set and broadcast with the mutex.
 */
#ifndef RING_DEVICE_DETACHED_H
#define RING_DEVICE_DETACHED_H

#include <pthread.h>
#include <stdbool.h>

typedef struct ring_detached {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  void (*work)(void *arg);
  void *arg;
  bool begun, done; /* guarded by the mutex */
} ring_detached;

void ring_detached_init(ring_detached *detached, void (*work)(void *arg), void *arg);

/* Begins the work, once: later calls do nothing. Without a thread the caller does the work. */
void ring_detached_begin(ring_detached *detached);

/* Waits for work that has begun. False when it has not ended within so many seconds: then all memory that it uses
 * has to stay. */
bool ring_detached_await(ring_detached *detached, double seconds);

/* After the work. */
void ring_detached_destroy(ring_detached *detached);

#endif
