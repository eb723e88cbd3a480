/* SPDX-License-Identifier: Apache-2.0 */
#include "interleavings.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "check.h"

enum {
  THREADS = 32, /* of one run, ended ones too */
  MUTEXES = 64,
  CHOICES = 20000,
  STEPS = 20000,
  PAUSES = 300, /* that end one after another while nothing else happens */
  SHOWN = 60,
  STACK = 512 * 1024
};

#define SLICE_NS UINT64_C(50000000)
#define TICK_NS UINT64_C(10000)

typedef enum thread_state { FREE, READY, LOCKING, WAITING, POLLING, JOINING, ENDED } thread_state;

static const char *const state_names[] = {"is not started", "runs",  "locks",    "waits on",
                                          "polls",          "joins", "has ended"};

typedef struct thread {
  ucontext_t context;
  char *stack;
  void *(*function)(void *);
  void *arg;
  thread_state state;
  pthread_mutex_t *mutex;
  const pthread_cond_t *condition;
  bool woken;  /* by a signal or the end of its pause */
  bool rested; /* the end of a pause has woken it last */
  bool pauses; /* the wait ends at `until` */
  uint64_t until;
  struct pollfd *entries;
  nfds_t count;
  int joined;
  bool own; /* started by the scenario itself */
} thread;

typedef struct choice {
  int taken, count;
} choice;

typedef struct step {
  int thread;
  thread_state state;
  const void *object;
} step;

static struct {
  bool explores, chooses, refuses;
  ucontext_t home;
  thread threads[THREADS];
  int current;
  pthread_mutex_t *mutexes[MUTEXES];
  int owners[MUTEXES]; /* -1: none */
  uint64_t now;
  int budget, pauses, steps;
  choice choices[CHOICES];
  int made, recorded;
  step log[SHOWN];
  int noted;
} all;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __real_pthread_cond_signal(pthread_cond_t *condition);
int __real_pthread_cond_broadcast(pthread_cond_t *condition);
void __real_ring_platform_condition_wait_ns(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                            uint64_t nanoseconds);
int __real_ring_platform_thread(pthread_t *started, void *(*function)(void *), void *arg);
int __real_pthread_join(pthread_t joined, void **result);
pthread_t __real_pthread_self(void);
uint64_t __real_ring_platform_now(void);
int __real_poll(struct pollfd *entries, nfds_t count, int milliseconds);

/* ---- Failures ----------------------------------------------------------------------------- */

static const void *object_of(const thread *one) {
  return one->state == WAITING ? (const void *)one->condition : (const void *)one->mutex;
}

/* A thread goes on from where it stopped. */
static void note(int number) {
  const thread *one = &all.threads[number];
  step *next = &all.log[all.noted++ % SHOWN];
  *next = (step){number, one->state, object_of(one)};
}

static void fail(const char *what) {
  fprintf(stderr, "%s; the last steps:\n", what);
  for (int i = all.noted < SHOWN ? 0 : all.noted - SHOWN; i < all.noted; i++) {
    const step *shown = &all.log[i % SHOWN];
    fprintf(stderr, "  thread %d %s %p\n", shown->thread, state_names[shown->state], shown->object);
  }
  for (int i = 0; i < THREADS; i++) {
    const thread *one = &all.threads[i];
    if (one->state != FREE && one->state != ENDED)
      fprintf(stderr, "thread %d %s %p\n", i, state_names[one->state], object_of(one));
  }
  exit(1);
}

/* ---- Choices ------------------------------------------------------------------------------ */

static int choose(int count) {
  if (count == 1) return 0;
  if (all.made == all.recorded) {
    CHECK(all.recorded < CHOICES);
    all.choices[all.recorded++] = (choice){0, count};
  }
  CHECK_INT(all.choices[all.made].count, count); /* else the scenario is not the same each time */
  return all.choices[all.made++].taken;
}

int interleavings_choose(int count) {
  return choose(count);
}

/* Whether there is another run. */
static bool choose_next(void) {
  while (all.recorded > 0) {
    choice *last = &all.choices[all.recorded - 1];
    if (++last->taken < last->count) return true;
    all.recorded--;
  }
  return false;
}

static int *owner_of(pthread_mutex_t *mutex) {
  for (int i = 0; i < MUTEXES; i++) {
    if (all.mutexes[i] == NULL) {
      all.mutexes[i] = mutex;
      all.owners[i] = -1;
    }
    if (all.mutexes[i] == mutex) return &all.owners[i];
  }
  fail("there are too many mutexes");
  return NULL;
}

static bool may_run(const thread *one) {
  switch (one->state) {
  case READY:
    return true;
  case LOCKING:
    return *owner_of(one->mutex) < 0;
  case WAITING:
    return one->woken && *owner_of(one->mutex) < 0;
  case POLLING:
    return one->woken || __real_poll(one->entries, one->count, 0) > 0;
  case JOINING:
    return all.threads[one->joined].state == ENDED;
  default:
    return false;
  }
}

static bool may_end_pause(const thread *one) {
  return (one->state == WAITING || one->state == POLLING) && one->pauses && !one->woken;
}

static void end_pause(thread *one) {
  if (one->until > all.now) all.now = one->until;
  one->woken = one->rested = true;
}

/* With no thread that can run, time goes on until the first pause ends. False: all threads have ended. */
static bool pass_time(void) {
  thread *first = NULL;
  bool over = true;
  for (int i = 0; i < THREADS; i++) {
    thread *one = &all.threads[i];
    over = over && (one->state == FREE || one->state == ENDED);
    if (may_end_pause(one) && (first == NULL || one->until < first->until)) first = one;
  }
  if (over) return false;
  if (first == NULL) fail("no thread can go on: a wake-up is lost");
  if (++all.pauses > PAUSES) fail("only pauses end: a wake-up is lost");
  end_pause(first);
  return true;
}

/* Chooses the thread that goes on; -1: all have ended. A pause may also end early, which a preemption pays. */
static int choose_thread(void) {
  int able[2 * THREADS], count = 0, ends = 0;
  bool stays = may_run(&all.threads[all.current]);
  if (stays) able[count++] = all.current;
  for (int i = 0; i < THREADS; i++)
    if (i != all.current && may_run(&all.threads[i])) able[count++] = i;
  if (count == 0) return pass_time() ? choose_thread() : -1;
  int most = !all.chooses || (stays && all.budget == 0) ? 1 : count;
  for (int i = 0; i < THREADS && all.chooses && all.budget > 0; i++)
    if (may_end_pause(&all.threads[i])) able[most + ends++] = i;
  int taken = choose(most + ends);
  if (taken >= most || (stays && taken > 0)) all.budget--;
  if (taken < most) return able[taken];
  thread *one = &all.threads[able[taken]];
  end_pause(one);
  return may_run(one) ? able[taken] : choose_thread();
}

/* ---- Runs --------------------------------------------------------------------------------- */

/* Stops the current thread until the explorer chooses it. */
static void stop(thread_state state) {
  thread *self = &all.threads[all.current];
  self->state = state;
  swapcontext(&self->context, &all.home);
}

static void thread_main(void) {
  thread *self = &all.threads[all.current];
  self->function(self->arg);
  self->state = ENDED;
  swapcontext(&self->context, &all.home);
}

static int make_thread(void *(*function)(void *), void *arg, bool own) {
  int number = 0;
  while (number < THREADS && all.threads[number].state != FREE) number++;
  CHECK(number < THREADS);
  thread *made = &all.threads[number];
  char *stack = made->stack != NULL ? made->stack : malloc(STACK);
  CHECK(stack != NULL);
  *made = (thread){.stack = stack, .function = function, .arg = arg, .state = READY, .own = own};
  getcontext(&made->context);
  made->context.uc_stack.ss_sp = stack;
  made->context.uc_stack.ss_size = STACK;
  makecontext(&made->context, thread_main, 0);
  return number;
}

/* Lets a thread go on from where it stopped. */
static void resume(int number) {
  thread *one = &all.threads[number];
  if (one->state == LOCKING || one->state == WAITING) *owner_of(one->mutex) = number;
  if (!one->rested) all.pauses = 0;
  if (++all.steps > STEPS) fail("the threads do not end");
  if (!one->rested || all.pauses < 2) note(number);
  all.current = number;
  one->state = READY;
  swapcontext(&all.home, &one->context);
}

static int more_preemptions; /* than in a short run */

void interleavings_configure(int argc, char **argv) {
  if (argc > 1) more_preemptions = atoi(argv[1]);
}

void interleavings_explore(const char *name, void (*scenario)(void *arg), void *arg,
                           int preemptions) {
  size_t runs = 0;
  all.recorded = 0;
  do {
    memset(all.mutexes, 0, sizeof all.mutexes);
    for (int i = 0; i < THREADS; i++) all.threads[i].state = FREE;
    all.explores = true;
    all.chooses = all.refuses = false;
    all.now = SLICE_NS;
    all.made = all.pauses = all.steps = all.noted = 0;
    all.budget = preemptions + more_preemptions;
    all.current = make_thread((void *(*)(void *))(void (*)(void))scenario, arg, false);
    for (int next; (next = choose_thread()) >= 0;) resume(next);
    all.explores = false;
    CHECK_INT(all.made, all.recorded);
    runs++;
  } while (choose_next());
  printf("  %s: %zu runs\n", name, runs);
  fflush(stdout);
}

/* ---- What scenarios call ------------------------------------------------------------------- */

void interleavings_begin(void) {
  all.chooses = true;
}

void interleavings_end(void) {
  all.chooses = false;
}

void interleavings_start(void (*function)(void *arg), void *arg) {
  make_thread((void *(*)(void *))(void (*)(void))function, arg, true);
}

void interleavings_join(void) {
  for (int i = 0; i < THREADS; i++) {
    all.threads[all.current].joined = i;
    if (all.threads[i].own && all.threads[i].state != FREE) stop(JOINING);
  }
}

void interleavings_refuse_threads(bool refuses) {
  all.refuses = refuses;
}

void interleavings_yield(void) {
  if (all.explores) stop(READY);
}

/* ---- In place of the system ---------------------------------------------------------------- */

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
  if (!all.explores) return __real_pthread_mutex_lock(mutex);
  all.threads[all.current].mutex = mutex;
  stop(LOCKING);
  return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
  if (!all.explores) return __real_pthread_mutex_unlock(mutex);
  CHECK_INT(*owner_of(mutex), all.current);
  *owner_of(mutex) = -1;
  return 0;
}

static void wait_on(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t nanoseconds) {
  thread *self = &all.threads[all.current];
  CHECK_INT(*owner_of(mutex), all.current);
  *owner_of(mutex) = -1;
  self->condition = condition;
  self->mutex = mutex;
  self->woken = self->rested = false;
  self->pauses = nanoseconds < SLICE_NS;
  self->until = self->pauses ? all.now + nanoseconds : 0;
  stop(WAITING);
}

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  if (!all.explores) return __real_pthread_cond_wait(condition, mutex);
  wait_on(condition, mutex, UINT64_MAX);
  return 0;
}

void __wrap_ring_platform_condition_wait_ns(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                            uint64_t nanoseconds) {
  if (all.explores)
    wait_on(condition, mutex, nanoseconds);
  else
    __real_ring_platform_condition_wait_ns(condition, mutex, nanoseconds);
}

void __wrap_ring_platform_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                         int milliseconds) {
  __wrap_ring_platform_condition_wait_ns(condition, mutex, (uint64_t)milliseconds * 1000000);
}

static bool waits_on(const thread *one, const pthread_cond_t *condition) {
  return one->state == WAITING && one->condition == condition && !one->woken;
}

int __wrap_pthread_cond_signal(pthread_cond_t *condition) {
  int waiters[THREADS], count = 0;
  if (!all.explores) return __real_pthread_cond_signal(condition);
  for (int i = 0; i < THREADS; i++)
    if (waits_on(&all.threads[i], condition)) waiters[count++] = i;
  if (count > 0) all.threads[waiters[choose(all.chooses ? count : 1)]].woken = true;
  return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *condition) {
  if (!all.explores) return __real_pthread_cond_broadcast(condition);
  for (int i = 0; i < THREADS; i++)
    if (waits_on(&all.threads[i], condition)) all.threads[i].woken = true;
  return 0;
}

int __wrap_ring_platform_thread(pthread_t *started, void *(*function)(void *), void *arg) {
  if (!all.explores) return __real_ring_platform_thread(started, function, arg);
  if (all.refuses) return EAGAIN;
  *started = (pthread_t)make_thread(function, arg, false);
  return 0;
}

int __wrap_pthread_join(pthread_t joined, void **result) {
  if (!all.explores) return __real_pthread_join(joined, result);
  all.threads[all.current].joined = (int)joined;
  stop(JOINING);
  return 0;
}

pthread_t __wrap_pthread_self(void) {
  return all.explores ? (pthread_t)all.current : __real_pthread_self();
}

/* Each look at the clock takes time, so that loops until a deadline end. */
uint64_t __wrap_ring_platform_now(void) {
  return all.explores ? all.now += TICK_NS : __real_ring_platform_now();
}

int __wrap_poll(struct pollfd *entries, nfds_t count, int milliseconds) {
  int ready = __real_poll(entries, count, all.explores ? 0 : milliseconds);
  if (!all.explores || ready != 0 || milliseconds == 0) return ready;
  thread *self = &all.threads[all.current];
  self->entries = entries;
  self->count = count;
  self->mutex = NULL;
  self->woken = self->rested = false;
  self->pauses = milliseconds > 0 && (uint64_t)milliseconds * 1000000 < SLICE_NS;
  self->until = all.now + (uint64_t)(self->pauses ? milliseconds : 0) * 1000000;
  stop(POLLING);
  return __real_poll(entries, count, 0);
}
