/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/process_end.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#define NAMED(number) {number, #number}

static const struct {
  int number;
  const char *name;
} process_end_names[] = {
    NAMED(SIGHUP),  NAMED(SIGINT),    NAMED(SIGQUIT), NAMED(SIGILL),    NAMED(SIGTRAP),
    NAMED(SIGABRT), NAMED(SIGBUS),    NAMED(SIGFPE),  NAMED(SIGKILL),   NAMED(SIGUSR1),
    NAMED(SIGSEGV), NAMED(SIGUSR2),   NAMED(SIGPIPE), NAMED(SIGALRM),   NAMED(SIGTERM),
    NAMED(SIGXCPU), NAMED(SIGXFSZ),   NAMED(SIGPROF), NAMED(SIGVTALRM), NAMED(SIGSYS),
#ifdef __linux__
    NAMED(SIGPOLL), NAMED(SIGSTKFLT), NAMED(SIGPWR),
#endif
};

int ring_process_end_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

const char *ring_process_end_describe(int status, char *text, size_t capacity) {
  if (!WIFSIGNALED(status)) {
    snprintf(text, capacity, "failed with exit code %d", WEXITSTATUS(status));
    return text;
  }
  snprintf(text, capacity, "was killed by signal %d", WTERMSIG(status));
  for (size_t i = 0; i < sizeof process_end_names / sizeof *process_end_names; i++)
    if (process_end_names[i].number == WTERMSIG(status))
      snprintf(text, capacity, "was killed by %s", process_end_names[i].name);
  return text;
}
