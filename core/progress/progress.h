/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of the thread that moves a queue, and wake-ups. README.md has the states and the reason why each wait ends.
 *
 * A queue is what several threads wait for, and one thread at a time moves: started collectives, messages, named
 * tensors. A thread that waits moves the queue itself, so that no other thread has to be woken. The progress thread
 * moves it while no thread does.
 *
 * The mutex guards the queue of the user, too. Every function but init, destroy, start and stop is called with it.
 */
#ifndef RING_PROGRESS_PROGRESS_H
#define RING_PROGRESS_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Between two calls of the hooks of a thread that waits. */
#define RING_PROGRESS_SLICE_MS 100
#define RING_PROGRESS_SLICE_NS (RING_PROGRESS_SLICE_MS * UINT64_C(1000000))

/* Pauses of the progress thread of a queue that others move: the first, the longest, and how long the queue is empty
 * before the thread rests without an end, or ends. */
#define RING_PROGRESS_PAUSE_NS UINT64_C(50000)
#define RING_PROGRESS_LONGEST_NS UINT64_C(1000000)
#define RING_PROGRESS_IDLE_NS UINT64_C(20000000)
#define RING_PROGRESS_FOREVER UINT64_MAX

/* What the engine asks of a queue. Called with the mutex, which `move`, `check`, `rest` and `turn` may release. */
typedef struct ring_progress_ops {
  /* Whether the wait for an aim is over: the aim is reached, or the queue has failed. */
  bool (*is_over)(const void *queue, const void *aim);

  /* Moves the queue, or rests before it may be moved, for a thread that waits. Called while no thread moves it. False:
   * there is nothing to move, or the queue must not be moved any more. */
  bool (*move)(void *queue, void *aim);

  /* Before a thread waits for the thread that moves the queue, and before it is stopped: ends a sleep of that thread
   * which is in the way. NULL: a turn never sleeps so. */
  void (*press)(void *queue);

  /* After each move and each sleep of a wait that is not over. `due`: a slice has passed since the hooks were due. */
  void (*check)(void *queue, void *aim, bool due);

  /* Lets the progress thread rest (ring_progress_rest). False: it ends. */
  bool (*rest)(void *queue);

  /* A turn of the progress thread after a rest. Called while no thread moves the queue. */
  void (*turn)(void *queue);
} ring_progress_ops;

typedef enum ring_progress_thread {
  RING_PROGRESS_NONE,
  RING_PROGRESS_RUNS,
  RING_PROGRESS_ENDED /* and is to be joined */
} ring_progress_thread;

typedef struct ring_progress {
  pthread_mutex_t mutex;
  pthread_cond_t changed; /* threads that wait for the thread that moves the queue */
  pthread_cond_t work;    /* threads that rest */
  const ring_progress_ops *ops;
  void *queue;
  unsigned process;
  bool moving;    /* a thread moves the queue: `mover` */
  bool stops;     /* the progress thread ends */
  int waiting;    /* threads in ring_progress_wait */
  int sleeping;   /* threads that wait on `changed` */
  int resting;    /* threads on `work` that ring_progress_wake is for */
  uint64_t pause; /* of the progress thread */
  uint64_t idle;  /* how long it has found nothing */
  pthread_t mover, thread;
  ring_progress_thread state;
} ring_progress;

/* 0 or an errno. */
int ring_progress_init(ring_progress *progress, const ring_progress_ops *ops, void *queue);

/* Does nothing in a forked child: the mutex may be locked. The progress thread has been stopped. */
void ring_progress_destroy(ring_progress *progress);

/* False in a forked child. */
bool ring_progress_is_mine(const ring_progress *progress);

/* ---- The progress thread ------------------------------------------------------------------- */

/* Starts it unless it runs. 0 or an errno. Called with the mutex, or before another thread has the queue. */
int ring_progress_start(ring_progress *progress);

/* Joins a progress thread that has ended by itself. */
void ring_progress_reap(ring_progress *progress);

/* Has the progress thread end, and waits for that. Called with the mutex. */
void ring_progress_stop(ring_progress *progress);

/* Sleeps on `work`. `wakes`: until ring_progress_wake at the latest, which else does not reach the thread. */
void ring_progress_rest(ring_progress *progress, uint64_t nanoseconds, bool wakes);

/* A pause that is twice as long, from the first one to `longest`. */
static inline uint64_t progress_longer(uint64_t pause, uint64_t longest) {
  uint64_t longer = pause == 0 ? RING_PROGRESS_PAUSE_NS : 2 * pause;
  return longer < longest ? longer : longest;
}

/* ---- Moving and waiting -------------------------------------------------------------------- */

/* Between the two this thread moves the queue, and may release the mutex. */
void ring_progress_begin(ring_progress *progress);
void ring_progress_end(ring_progress *progress);

/* Whether this thread moves the queue: it is in a hook of the turn. */
bool ring_progress_moves_here(const ring_progress *progress);

/* Waits until the aim is reached, and moves the queue meanwhile. */
void ring_progress_wait(ring_progress *progress, void *aim);

/* Sleeps on `changed`, `milliseconds` at most. */
void ring_progress_sleep(ring_progress *progress, int milliseconds);

/* Something that threads wait for has changed, or no thread moves the queue. */
static inline void progress_changed(ring_progress *progress) {
  if (progress->sleeping > 0) pthread_cond_broadcast(&progress->changed);
}

/* There is something to move. */
static inline void progress_wake(ring_progress *progress) {
  if (progress->resting > 0) pthread_cond_broadcast(&progress->work);
}

#endif
