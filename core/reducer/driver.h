/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver: which thread runs the cycles of a reducer, and when.
 *
 * A thread that waits for a submission runs cycles itself, so that no other thread has to be woken. The
 * reducer's own thread runs them while no thread waits: it lets submissions gather for the cycle time.
 * After a cycle without progress a cycle begins at the next submission, or after a pause that doubles
 * from 50 us to 2 ms. A reducer without submissions runs a cycle at every tick, which all ranks have alike. So
 * the ranks that wait for a name learn that this rank lacks it, and do not wait in a cycle that it never enters.
 *
 * Invariants. The mutex guards the reducer, except what the thread in a cycle (`driving`) uses alone: the
 * communicator, the plan, the execution. `sleepers` counts the threads that a submission has to wake.
 *
 * Wake-ups. No wait needs the end of its slice; tests/core/reducer/test_reducer_wakeups.c runs all orders.
 *
 *   waits             on        until                               woken by
 *   a waiter          work      the rest before the next cycle      a submission, a join, a close: driver_wake
 *                               is over, and it runs the cycle
 *   a waiter          changed   its condition, or no thread is      the end of a run, of a cycle; a failure
 *                               in a cycle and one is due
 *   the idle thread   work      something was submitted, or the     driver_wake; a failure; ring_driver_stop; of
 *                               next tick                           a tick none
 *   the busy thread   work      its pause is over                   the same if it counts as a sleeper; else it looks
 *                                                                   by itself
 */
#ifndef RING_REDUCER_DRIVER_H
#define RING_REDUCER_DRIVER_H

#include <pthread.h>

#include "reducer/autotune.h"
#include "reducer/execution.h"
#include "reducer/fusion_plan.h"
#include "reducer/stall.h"

struct ring_reducer {
  pthread_mutex_t mutex;
  pthread_cond_t work;
  pthread_cond_t changed;
  unsigned process;
  size_t references; /* one of the user, one of each submission that was not freed */
  ring_comm *comm;   /* NULL when it was freed */
  ring_negotiation negotiation;
  ring_execution execution;
  ring_stall stall;
  ring_autotune autotune;
  int log_error; /* errno of the file of the autotuning */
  size_t threshold;
  uint64_t cycle_time, pause; /* nanoseconds; pause: before the next cycle, since `rested` */
  uint64_t rested;
  uint64_t tick;      /* nanoseconds between the cycles of an idle reducer; 0: it runs none */
  uint64_t ticked;    /* the end of the last cycle */
  ring_ready **items; /* of a run */
  size_t item_capacity;
  ring_submission *spare;
  size_t in_flight; /* submissions that are not done */
  uint64_t submitted, seen;
  int sleepers, waiters;
  bool driving, threaded, stops;
  bool closed; /* every rank has closed */
  bool broken; /* the communicator has failed */
  bool joins;  /* a thread is in ring_reducer_join */
  bool leaves; /* ring_reducer_leave was called, and ring_reducer_close was not */
  atomic_bool aborts;
  char reason[256]; /* of the abort */
  pthread_t thread;
  ring_error failure; /* of every submission, once its status is not RING_OK */
  ring_interrupt_fn interrupt;
  void *interrupt_arg;
  ring_log_fn log;
  void *log_arg;
  bool hooks; /* the thread in the cycle may call hooks of the user */
  bool kept;  /* a warning waits in `text` for a thread that waits */
  char text[1024];
  uint64_t operations, runs;
};

/* Sets the hooks of the reducer's communicator and starts the thread. 0 or an errno. */
int ring_driver_start(ring_reducer *reducer);

/* The tick that suits this rank's deadlines, in milliseconds; 0 on the only rank. The ranks use the shortest one. */
int64_t ring_driver_tick(const ring_reducer *reducer);

/* Ends the thread. */
void ring_driver_stop(ring_reducer *reducer);

/* The condition that a thread waits for. */
typedef bool (*ring_driver_until_fn)(const ring_reducer *reducer, const void *arg);

/* Waits, and drives meanwhile, until `until` is true or the reducer has failed. Called with the mutex. */
void ring_driver_wait(ring_reducer *reducer, ring_driver_until_fn until, const void *arg);

/* Wakes who is to run a cycle for a new submission. Called with the mutex. */
static inline void driver_wake(ring_reducer *reducer) {
  if (reducer->sleepers > 0) pthread_cond_broadcast(&reducer->work);
}

/* Makes the thread in a cycle end it soon; every submission completes with RING_ABORTED. Called with the
 * mutex. */
void ring_driver_abort(ring_reducer *reducer, const char *reason);

#endif
