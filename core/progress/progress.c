/* SPDX-License-Identifier: Apache-2.0 */
#include "progress/progress.h"

#include "base/platform.h"

/* ---- Life --------------------------------------------------------------------------------- */

int ring_progress_init(ring_progress *progress, const ring_progress_ops *ops, void *queue) {
  *progress = (ring_progress){.ops = ops, .queue = queue, .process = ring_platform_process()};
  int code = ring_platform_condition_init(&progress->changed);
  if (code != 0) return code;
  code = ring_platform_condition_init(&progress->work);
  if (code == 0) {
    code = pthread_mutex_init(&progress->mutex, NULL);
    if (code == 0) return 0;
    pthread_cond_destroy(&progress->work);
  }
  pthread_cond_destroy(&progress->changed);
  return code;
}

bool ring_progress_is_mine(const ring_progress *progress) {
  return progress->process == ring_platform_process();
}

void ring_progress_destroy(ring_progress *progress) {
  if (!ring_progress_is_mine(progress)) return;
  pthread_mutex_destroy(&progress->mutex);
  pthread_cond_destroy(&progress->changed);
  pthread_cond_destroy(&progress->work);
}

/* ---- The progress thread ------------------------------------------------------------------- */

static void *progress_main(void *arg) {
  ring_progress *progress = arg;
  pthread_mutex_lock(&progress->mutex);
  progress->pause = RING_PROGRESS_PAUSE_NS;
  progress->idle = 0;
  while (progress->ops->rest(progress->queue))
    if (!progress->moving) progress->ops->turn(progress->queue);
  progress->state = RING_PROGRESS_ENDED;
  pthread_cond_broadcast(&progress->changed);
  pthread_mutex_unlock(&progress->mutex);
  return NULL;
}

void ring_progress_reap(ring_progress *progress) {
  if (progress->state != RING_PROGRESS_ENDED) return;
  pthread_join(progress->thread, NULL); /* it does not lock the mutex any more */
  progress->state = RING_PROGRESS_NONE;
}

int ring_progress_start(ring_progress *progress) {
  if (progress->state == RING_PROGRESS_RUNS) return 0;
  ring_progress_reap(progress);
  progress->state = RING_PROGRESS_RUNS;
  int code = ring_platform_thread(&progress->thread, progress_main, progress);
  if (code != 0) progress->state = RING_PROGRESS_NONE;
  return code;
}

void ring_progress_stop(ring_progress *progress) {
  progress->stops = true;
  pthread_cond_broadcast(&progress->work);
  if (progress->ops->press != NULL) progress->ops->press(progress->queue);
  while (progress->state == RING_PROGRESS_RUNS) ring_progress_sleep(progress, 0);
  ring_progress_reap(progress);
}

void ring_progress_rest(ring_progress *progress, uint64_t nanoseconds, bool wakes) {
  progress->resting += wakes;
  if (nanoseconds == RING_PROGRESS_FOREVER)
    pthread_cond_wait(&progress->work, &progress->mutex);
  else
    ring_platform_condition_wait_ns(&progress->work, &progress->mutex, nanoseconds);
  progress->resting -= wakes;
}

/* ---- Moving and waiting -------------------------------------------------------------------- */

void ring_progress_begin(ring_progress *progress) {
  progress->moving = true;
  progress->mover = pthread_self();
}

void ring_progress_end(ring_progress *progress) {
  progress->moving = false;
}

bool ring_progress_moves_here(const ring_progress *progress) {
  return progress->moving && pthread_equal(progress->mover, pthread_self());
}

void ring_progress_sleep(ring_progress *progress, int milliseconds) {
  progress->sleeping++;
  if (milliseconds == 0)
    pthread_cond_wait(&progress->changed, &progress->mutex);
  else
    ring_platform_condition_wait(&progress->changed, &progress->mutex, milliseconds);
  progress->sleeping--;
}

/* Moves the queue, or waits for the thread that does. */
static void progress_step(ring_progress *progress, void *aim, uint64_t *since) {
  const ring_progress_ops *ops = progress->ops;
  if (!progress->moving && ops->move(progress->queue, aim)) return;
  if (*since == 0) *since = ring_platform_now();
  if (progress->moving && ops->press != NULL) ops->press(progress->queue);
  ring_progress_sleep(progress, RING_PROGRESS_SLICE_MS);
}

void ring_progress_wait(ring_progress *progress, void *aim) {
  const ring_progress_ops *ops = progress->ops;
  uint64_t since = 0; /* the last hooks; 0: the wait has not begun */
  progress->waiting++;
  while (!ops->is_over(progress->queue, aim)) {
    progress_step(progress, aim, &since);
    if (ops->is_over(progress->queue, aim)) break;
    uint64_t now = ring_platform_now();
    if (since == 0) since = now;
    bool due = now - since >= RING_PROGRESS_SLICE_NS;
    ops->check(progress->queue, aim, due);
    if (due) since = ring_platform_now();
  }
  progress->waiting--;
}
