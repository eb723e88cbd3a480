/* SPDX-License-Identifier: Apache-2.0
 *
 * The cycles of a reducer: what one does, and when a thread runs one (progress/progress.h).
 *
 * A thread that waits for a submission runs cycles itself. The progress thread runs them while no thread waits: it
 * lets submissions gather for the cycle time.
 * After a cycle without progress a cycle begins at the next submission, or after a pause that doubles
 * from 50 us to 2 ms. A reducer without submissions runs a cycle at every tick, which all ranks have alike. So
 * the ranks that wait for a name learn that this rank lacks it, and do not wait in a cycle that it never enters.
 *
 * Invariants. The mutex of `progress` guards the reducer, except what the thread in a cycle, which moves the
 * reducer, uses alone: the communicator, the plan, the execution.
 *
 * Wake-ups, beside those of progress/README.md. tests/core/reducer/test_reducer_wakeups.c runs all orders.
 *
 *   waits             on        until                               woken by
 *   a waiter          work      the rest before the next cycle      a submission, a join, a close
 *                               is over, and it runs the cycle
 *   a waiter          changed   its condition, or no thread is      the end of a run, of a cycle; a failure
 *                               in a cycle and one is due
 *   the idle thread   work      something was submitted, or the     a submission, a join, a close; a failure; of a
 *                               next tick                           tick none
 *   the busy thread   work      its pause is over                   the same if the pause is longer than the cycle
 *                                                                   time; else it looks by itself
 */
#ifndef RING_REDUCER_CYCLE_H
#define RING_REDUCER_CYCLE_H

#include "progress/progress.h"
#include "reducer/autotune.h"
#include "reducer/execution.h"
#include "reducer/fusion_plan.h"
#include "reducer/stall.h"

struct ring_reducer {
  ring_progress progress;
  size_t references; /* one of the user, one of each submission that was not freed */
  ring_comm *comm;   /* NULL when it was freed */
  ring_negotiation negotiation;
  ring_reducer_gpu gpu;
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
  bool idle;   /* the progress thread has found nothing */
  bool closed; /* every rank has closed */
  bool broken; /* the communicator has failed */
  bool joins;  /* a thread is in ring_reducer_join */
  bool leaves; /* ring_reducer_leave was called, and ring_reducer_close was not */
  atomic_bool aborts;
  char reason[256];   /* of the abort */
  ring_error failure; /* of every submission, once its status is not RING_OK */
  ring_interrupt_fn interrupt;
  void *interrupt_arg;
  ring_log_fn log;
  void *log_arg;
  bool hooks; /* the thread in the cycle may call hooks of the user */
  bool kept;  /* a warning waits in `text` for a thread that waits */
  char text[1024];
  uint64_t operations, runs, gpu_runs;
};

static inline void reducer_lock(ring_reducer *reducer) {
  pthread_mutex_lock(&reducer->progress.mutex);
}

static inline void reducer_unlock(ring_reducer *reducer) {
  pthread_mutex_unlock(&reducer->progress.mutex);
}

/* 0 or an errno. */
int ring_cycle_init(ring_reducer *reducer);

/* Sets the hooks of the reducer's communicator and starts the progress thread. 0 or an errno. */
int ring_cycle_start(ring_reducer *reducer);

/* The tick that suits this rank's deadlines, in milliseconds; 0 on the only rank. The ranks use the shortest one. */
int64_t ring_cycle_tick(const ring_reducer *reducer);

/* Ends the progress thread. */
void ring_cycle_stop(ring_reducer *reducer);

/* The condition that a thread waits for. */
typedef bool (*ring_cycle_until_fn)(const ring_reducer *reducer, const void *arg);

/* Waits, and runs cycles meanwhile, until `until` is true or the reducer has failed. Called with the mutex. */
void ring_cycle_await(ring_reducer *reducer, ring_cycle_until_fn until, const void *arg);

/* Makes the thread in a cycle end it soon; every submission completes with RING_ABORTED. Called with the
 * mutex. */
void ring_cycle_abort(ring_reducer *reducer, const char *reason);

#endif
