/* SPDX-License-Identifier: Apache-2.0
 *
 * A wait: how long a call may block. It has a deadline, calls the binding's interrupt hook on the calling
 * thread about every 100 ms and, where that is wanted, checks as often that the parent process lives.
 *
 * A caller sleeps for ring_wait_slice at most and then calls ring_wait_check. A longer gap between two
 * checks shows that the process was suspended. That time does not count as waiting: after it a rank has to
 * receive first what its peers have sent meanwhile.
 */
#ifndef RING_BASE_WAIT_H
#define RING_BASE_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "sparkring.h"

/* The warning about a long wait: after how long, and through which hook. */
typedef struct ring_alarm {
  uint64_t after;  /* nanoseconds; 0: never */
  ring_log_fn log; /* NULL: no warning */
  void *log_arg;
} ring_alarm;

/* Ends waits. What is above it ends them, too. Any thread may set it. */
typedef struct ring_stop {
  atomic_bool set;
  const struct ring_stop *above; /* NULL: nothing is */
} ring_stop;

static inline bool ring_stop_is_set(const ring_stop *stop) {
  while (stop != NULL && !atomic_load(&stop->set)) stop = stop->above;
  return stop != NULL;
}

typedef struct ring_wait {
  uint64_t begun;
  uint64_t patience;
  uint64_t deadline;
  uint64_t asked; /* time of the last call of the hook */
  uint64_t now;   /* time of the last check */
  uint64_t away;  /* nanoseconds in which this process did not run, suspended or starved */
  ring_interrupt_fn interrupt;
  void *interrupt_arg;
  const ring_stop *stop;   /* another thread ends the wait; NULL: none does */
  const ring_alarm *alarm; /* NULL: no warning */
  bool watch_parent;       /* the end of the parent process ends the wait */
  uint64_t warned;         /* how long the wait had lasted at the last warning */
} ring_wait;

void ring_wait_init(ring_wait *wait, double seconds, ring_interrupt_fn interrupt, void *arg);

/* The same in two steps: prepare does not read the clock, which costs as much as a short call; begin
 * does. */
void ring_wait_prepare(ring_wait *wait, double seconds, ring_interrupt_fn interrupt, void *arg);
void ring_wait_begin(ring_wait *wait);

/* Restarts the deadline: a peer has sent something. */
void ring_wait_renew(ring_wait *wait);

/* Milliseconds until the deadline. */
uint32_t ring_wait_left(const ring_wait *wait);

/* Milliseconds to sleep before the next ring_wait_check, 0 to 100. */
int ring_wait_slice(const ring_wait *wait);

/* RING_OK, RING_TIMEOUT past the deadline, or RING_ABORTED when the hook or another thread asks for it or
 * the watched parent has ended. */
ring_status ring_wait_check(ring_wait *wait);

/* Fills *error with what aborted a wait of `rank` in `call`. Returns RING_ABORTED. */
ring_status ring_wait_aborted(const ring_wait *wait, int rank, const char *call, ring_error *error);

/* Whether a warning is due: after the time of the alarm, and each time the wait has lasted twice as long.
 * The caller sends it with ring_wait_warn. */
bool ring_wait_lasts(ring_wait *wait);
void ring_wait_warn(const ring_wait *wait, const char *message);

/* Whether this process has waited, awake, for half of its deadline: about as long as peers for it. */
bool ring_wait_is_old(const ring_wait *wait);

/* Whether this process was suspended or starved for a part of the wait. */
bool ring_wait_was_away(const ring_wait *wait);

/* Seconds in which this process was suspended; 0 below half of the deadline, in which no peer times out
 * waiting for it. */
double ring_wait_absence(const ring_wait *wait);

/* Seconds since ring_wait_init or the last ring_wait_renew. */
double ring_wait_seconds(const ring_wait *wait);

#endif
