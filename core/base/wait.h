/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a call may wait: a deadline, and the binding's interrupt hook, which is asked on the
 * calling thread about every 100 ms; as often it is looked whether the parent of this process is still
 * there, where that is wanted. Whoever waits sleeps for ring_wait_slice at most and then asks
 * ring_wait_check. So it sees when this process was stopped: that time does not count as waiting,
 * because a rank that goes on after it has to hear first what the others have said meanwhile.
 */
#ifndef RING_WAIT_H
#define RING_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "sparkring.h"

/* Who is told of a wait that lasts, and when. */
typedef struct ring_alarm {
  uint64_t after;  /* nanoseconds; 0: never */
  ring_log_fn log; /* NULL: nobody */
  void *log_arg;
} ring_alarm;

typedef struct ring_wait {
  uint64_t begun;
  uint64_t patience;
  uint64_t deadline;
  uint64_t asked; /* when the hook was last called */
  uint64_t now;   /* when it was last checked */
  uint64_t away;  /* time in which this process did not run, stopped or starved */
  ring_interrupt_fn interrupt;
  void *interrupt_arg;
  const atomic_bool *stop; /* another thread ends the wait; NULL: none does */
  const ring_alarm *alarm; /* NULL: nobody is told */
  bool watch_parent;       /* the end of the process that started this one ends the wait */
  uint64_t told;           /* for how long it had lasted when that was last told */
} ring_wait;

void ring_wait_init(ring_wait *wait, double seconds, ring_interrupt_fn interrupt, void *arg);

/* The same in two steps: without looking at the clock, which costs as much as a short call; and from
 * now on. */
void ring_wait_prepare(ring_wait *wait, double seconds, ring_interrupt_fn interrupt, void *arg);
void ring_wait_begin(ring_wait *wait);

/* Moves the deadline to where it would be if the wait began now: somebody gave a sign of life. */
void ring_wait_renew(ring_wait *wait);

/* Milliseconds until the deadline. */
uint32_t ring_wait_left(const ring_wait *wait);

/* Milliseconds to sleep before the next ring_wait_check, 0 to 100. */
int ring_wait_slice(const ring_wait *wait);

/* RING_OK, RING_TIMEOUT past the deadline, or RING_ABORTED when the hook or another thread says so or
 * the parent that is watched has ended. */
ring_status ring_wait_check(ring_wait *wait);

/* Says which of these ended a wait of `rank` in `call`. RING_ABORTED. */
ring_status ring_wait_aborted(const ring_wait *wait, int rank, const char *call, ring_error *error);

/* Whether somebody is to be told now that the wait lasts, which it then is with ring_wait_tell: after
 * the time of the alarm, and each time when it has lasted twice as long. */
bool ring_wait_lasts(ring_wait *wait);
void ring_wait_tell(const ring_wait *wait, const char *message);

/* Whether it has waited, awake, for half of what it may: as long as others for it, about. */
bool ring_wait_is_old(const ring_wait *wait);

/* Whether this process did not run for a part of the wait, stopped or starved. */
bool ring_wait_was_away(const ring_wait *wait);

/* Seconds for which this process did not run during the wait; 0 if that was less than half of what it
 * may wait, in which no other rank gives it up. */
double ring_wait_absence(const ring_wait *wait);

/* Seconds since ring_wait_init or the last ring_wait_renew. */
double ring_wait_seconds(const ring_wait *wait);

#endif
