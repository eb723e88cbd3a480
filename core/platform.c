/* SPDX-License-Identifier: Apache-2.0 */
#include "platform.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

uint64_t ring_platform_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int ring_platform_processors(void) {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online < 1 ? 1 : (int)online;
}

/* macOS cannot choose the clock of a condition; a clock that jumps delays one wait there. */
#ifdef __APPLE__
#define PLATFORM_CONDITION_CLOCK CLOCK_REALTIME
#else
#define PLATFORM_CONDITION_CLOCK CLOCK_MONOTONIC
#endif

int ring_platform_condition_init(pthread_cond_t *condition) {
  pthread_condattr_t attributes;
  int code = pthread_condattr_init(&attributes);
  if (code != 0) return code;
#ifndef __APPLE__
  code = pthread_condattr_setclock(&attributes, PLATFORM_CONDITION_CLOCK);
#endif
  if (code == 0) code = pthread_cond_init(condition, &attributes);
  pthread_condattr_destroy(&attributes);
  return code;
}

void ring_platform_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  int milliseconds) {
  struct timespec until;
  clock_gettime(PLATFORM_CONDITION_CLOCK, &until);
  until.tv_nsec += (long)milliseconds * 1000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_cond_timedwait(condition, mutex, &until);
}

int ring_platform_thread(pthread_t *thread, void *(*function)(void *), void *arg) {
  sigset_t all, before;
  sigfillset(&all);
  int code = pthread_sigmask(SIG_SETMASK, &all, &before);
  if (code != 0) return code;
  code = pthread_create(thread, NULL, function, arg);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return code;
}

int ring_platform_pipe(int ends[2]) {
#ifdef __linux__
  return pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno;
#else
  if (pipe(ends) != 0) return errno;
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  fcntl(ends[1], F_SETFD, FD_CLOEXEC);
  return 0;
#endif
}
