/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine in every interleaving of its threads, with a queue of numbers: a thread takes a number, waits until it is
 * served, or leaves that to others. Turns end by themselves, or sleep until they are pressed, as on links. The progress
 * thread rests without an end, or ends. No wake-up is lost: every wait and stop returns.
 */
#include "progress/progress.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/platform.h"
#include "check.h"
#include "interleavings.h"

static struct {
  bool thread_ends; /* when it has found nothing for a while; else it rests */
  bool sleeps;      /* a turn of the progress thread sleeps until it is pressed */
} given;

static struct {
  ring_progress progress;
  int taken, served; /* numbers */
  bool fails;
  bool polling;
  int bell[2];
} now;

/* ---- The queue ----------------------------------------------------------------------------- */

static bool is_over(const void *queue, const void *aim) {
  (void)queue;
  return now.served >= *(const int *)aim || now.fails;
}

static void press(void *queue) {
  (void)queue;
  if (!now.polling) return;
  now.polling = false;
  CHECK_INT(write(now.bell[1], "", 1), 1);
}

/* Without an end: no pause hides a press that is lost. */
static void sleep_in_turn(void) {
  struct pollfd entry = {.fd = now.bell[0], .events = POLLIN};
  char byte;
  now.polling = true;
  pthread_mutex_unlock(&now.progress.mutex);
  int ready = poll(&entry, 1, RING_PROGRESS_SLICE_MS);
  pthread_mutex_lock(&now.progress.mutex);
  now.polling = false;
  if (ready > 0) CHECK_INT(read(now.bell[0], &byte, 1), 1);
}

static void serve(bool sleeps) {
  ring_progress_begin(&now.progress);
  CHECK(ring_progress_moves_here(&now.progress));
  pthread_mutex_unlock(&now.progress.mutex);
  interleavings_yield();
  pthread_mutex_lock(&now.progress.mutex);
  now.served++;
  progress_changed(&now.progress);
  if (sleeps && now.served == now.taken && !now.progress.stops) sleep_in_turn();
  ring_progress_end(&now.progress);
  progress_changed(&now.progress);
}

static bool move(void *queue, void *aim) {
  (void)queue, (void)aim;
  if (now.served == now.taken || now.fails) return false;
  serve(false);
  return true;
}

static void check(void *queue, void *aim, bool due) {
  (void)queue, (void)aim, (void)due;
}

static bool rest(void *queue) {
  ring_progress *progress = &now.progress;
  (void)queue;
  bool idle = now.served == now.taken;
  bool long_idle = idle && progress->idle >= 2 * RING_PROGRESS_PAUSE_NS;
  if (progress->stops || (long_idle && given.thread_ends)) return false;
  if (long_idle) {
    ring_progress_rest(progress, RING_PROGRESS_FOREVER, true);
    progress->idle = 0;
  } else {
    ring_progress_rest(progress, RING_PROGRESS_PAUSE_NS, false);
    progress->idle = idle ? progress->idle + RING_PROGRESS_PAUSE_NS : 0;
  }
  return !progress->stops;
}

static void turn(void *queue) {
  (void)queue;
  if (now.served < now.taken && !now.fails) serve(given.sleeps);
}

static const ring_progress_ops ops = {
    .is_over = is_over, .move = move, .press = press, .check = check, .rest = rest, .turn = turn};

/* ---- Steps --------------------------------------------------------------------------------- */

static void begin(void) {
  memset(&now, 0, sizeof now);
  CHECK_INT(ring_platform_pipe(now.bell), 0);
  CHECK_INT(ring_progress_init(&now.progress, &ops, NULL), 0);
  interleavings_begin();
}

static void end(void) {
  pthread_mutex_lock(&now.progress.mutex);
  ring_progress_stop(&now.progress);
  CHECK_INT(now.progress.state, RING_PROGRESS_NONE);
  pthread_mutex_unlock(&now.progress.mutex);
  interleavings_end();
  ring_progress_destroy(&now.progress);
  close(now.bell[0]);
  close(now.bell[1]);
}

/* Takes a number, which the progress thread may serve. Called with the mutex. */
static int take(void) {
  int mine = ++now.taken;
  if (ring_progress_start(&now.progress) == 0) progress_wake(&now.progress);
  return mine;
}

static void take_and_wait(void *unused) {
  (void)unused;
  pthread_mutex_lock(&now.progress.mutex);
  int mine = take();
  ring_progress_wait(&now.progress, &mine);
  CHECK(now.served >= mine || now.fails);
  progress_changed(&now.progress);
  pthread_mutex_unlock(&now.progress.mutex);
}

static void take_and_leave(void *unused) {
  (void)unused;
  pthread_mutex_lock(&now.progress.mutex);
  take();
  press(NULL);
  pthread_mutex_unlock(&now.progress.mutex);
}

static void await_last(void) {
  pthread_mutex_lock(&now.progress.mutex);
  int last = now.taken;
  while (now.served < last) ring_progress_sleep(&now.progress, 0); /* never moves the queue */
  pthread_mutex_unlock(&now.progress.mutex);
}

/* ---- Scenarios ----------------------------------------------------------------------------- */

static void waits_in_threads(void *unused) {
  begin();
  interleavings_start(take_and_wait, NULL);
  interleavings_start(take_and_wait, NULL);
  take_and_wait(unused);
  interleavings_join();
  end();
}

/* The progress thread serves what no thread waits for, also after it has ended or rested. */
static void nobody_waits(void *unused) {
  begin();
  for (int i = 0; i < 2; i++) {
    take_and_leave(unused);
    await_last();
    if (!given.sleeps) poll(NULL, 0, 1); /* the progress thread becomes idle */
  }
  end();
}

static void waits_beside_leaves(void *unused) {
  begin();
  interleavings_start(take_and_wait, NULL);
  interleavings_start(take_and_leave, NULL);
  take_and_wait(unused);
  interleavings_join();
  await_last();
  end();
}

static void fail_beside_waits(void *unused) {
  begin();
  interleavings_start(take_and_wait, NULL);
  interleavings_start(take_and_wait, NULL);
  pthread_mutex_lock(&now.progress.mutex);
  now.fails = true;
  press(unused);
  progress_changed(&now.progress);
  pthread_mutex_unlock(&now.progress.mutex);
  interleavings_join();
  end();
}

static void stop_at_once(void *unused) {
  begin();
  take_and_leave(unused);
  end();
}

/* ---- Tests --------------------------------------------------------------------------------- */

static void explore_all(void) {
  EXPLORE(waits_in_threads, 1);
  EXPLORE(nobody_waits, 2);
  EXPLORE(waits_beside_leaves, 1);
  EXPLORE(fail_beside_waits, 2);
  EXPLORE(stop_at_once, 3);
}

static void test_waits_end(void) {
  given.thread_ends = given.sleeps = false;
  explore_all();
}

static void test_waits_end_where_the_thread_ends(void) {
  given.thread_ends = true;
  explore_all();
  given.thread_ends = false;
}

static void test_waits_end_where_turns_sleep(void) {
  given.sleeps = true;
  explore_all();
  given.sleeps = false;
}

int main(int argc, char **argv) {
  interleavings_configure(argc, argv);
  RUN(test_waits_end);
  RUN(test_waits_end_where_the_thread_ends);
  RUN(test_waits_end_where_turns_sleep);
  return 0;
}
