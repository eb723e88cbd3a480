/* SPDX-License-Identifier: Apache-2.0 */
#include "stopped.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"

pid_t fork_stopped(void) {
  pid_t process = fork();
  CHECK(process >= 0);
  if (process == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  return process;
}

void watch_stopped(pid_t process, int others, stopped_state *state) {
  int status;
  CHECK_INT(waitpid(process, &status, WUNTRACED), process);
  CHECK(WIFSTOPPED(status));
  __sync_fetch_and_add(&state->stopped, 1);
  await_count(&state->failed, others);
  kill(process, SIGKILL);
  CHECK_INT(waitpid(process, &status, 0), process);
}

static bool stopped_soon;

int stop_hook(void *unused) {
  (void)unused;
  if (stopped_soon) raise(SIGSTOP);
  stopped_soon = false;
  return 0;
}

void stop_in_the_next_call(void) {
  stopped_soon = true;
}

void be_stopped(const ring_options *options, void (*stop)(ring_comm *), stopped_state *state) {
  ring_options own = *options;
  pid_t process = fork_stopped();
  if (process == 0) {
    own.interrupt = stop_hook;
    ring_comm *comm = open_with(&own);
    stop(comm);
    _exit(1);
  }
  watch_stopped(process, own.size - 1, state);
}
