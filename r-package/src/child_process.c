/* SPDX-License-Identifier: Apache-2.0 */
#include "child_process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "error.h"

#define CHILD_MOST 256 /* children whose ends are noted at the same time */

SEXP child_become(SEXP command) {
  R_xlen_t length = XLENGTH(command);
  char **words = (char **)R_alloc((size_t)length + 1, sizeof *words);
  for (R_xlen_t i = 0; i < length; i++) words[i] = (char *)CHAR(STRING_ELT(command, i));
  words[length] = NULL;
  execv(words[0], words);
  ring_error error = {.status = RING_SYSTEM, .rank = -1, .system_errno = errno};
  snprintf(error.message, sizeof error.message, "cannot run %s: %s", words[0], strerror(errno));
  error_raise(RING_SYSTEM, &error);
}

SEXP child_kill(SEXP process) {
  pid_t number = (pid_t)Rf_asInteger(process);
  if (number <= 1) return R_NilValue;
  kill(-number, SIGKILL);
  kill(number, SIGKILL); /* the child may not have made its group yet */
  return R_NilValue;
}

static struct {
  volatile sig_atomic_t process; /* 0: free */
  volatile sig_atomic_t code;    /* of waitid(); 0 until the child has ended */
  volatile sig_atomic_t status;
} child_ends[CHILD_MOST];

static struct sigaction child_previous;

/* parallel reaps its children in a handler of SIGCHLD, and drops how they ended. */
static void child_note_ends(void) {
  for (int i = 0; i < CHILD_MOST; i++) {
    siginfo_t end = {0};
    if (child_ends[i].process == 0 || child_ends[i].code != 0) continue;
    int options = WEXITED | WNOHANG | WNOWAIT;
    if (waitid(P_PID, (id_t)child_ends[i].process, &end, options) != 0 || end.si_pid == 0) continue;
    child_ends[i].status = end.si_status;
    child_ends[i].code = end.si_code;
  }
}

static void child_on_signal(int number, siginfo_t *info, void *context) {
  int saved = errno;
  child_note_ends();
  errno = saved;
  if (child_previous.sa_flags & SA_SIGINFO)
    child_previous.sa_sigaction(number, info, context);
  else if (child_previous.sa_handler != SIG_DFL && child_previous.sa_handler != SIG_IGN)
    child_previous.sa_handler(number);
}

SEXP child_watch(SEXP process) {
  struct sigaction action;
  sigaction(SIGCHLD, NULL, &action);
  if (!(action.sa_flags & SA_SIGINFO) || action.sa_sigaction != child_on_signal) {
    child_previous = action;
    action.sa_flags |= SA_SIGINFO;
    action.sa_sigaction = child_on_signal;
    sigaction(SIGCHLD, &action, NULL);
  }
  for (int i = 0; i < CHILD_MOST; i++) {
    if (child_ends[i].process != 0) continue;
    child_ends[i].code = 0;
    child_ends[i].process = Rf_asInteger(process);
    break;
  }
  return R_NilValue;
}

SEXP child_end(SEXP process) {
  for (int i = 0; i < CHILD_MOST; i++) {
    if (child_ends[i].process != Rf_asInteger(process)) continue;
    int code = child_ends[i].code, status = child_ends[i].status;
    child_ends[i].process = 0;
    if (code != 0) return Rf_ScalarInteger(code == CLD_EXITED ? status : -status);
  }
  return Rf_ScalarInteger(NA_INTEGER);
}

SEXP child_gone(SEXP process) {
  child_note_ends();
  siginfo_t end = {0};
  int code = waitid(P_PID, (id_t)Rf_asInteger(process), &end, WEXITED | WNOHANG | WNOWAIT);
  return Rf_ScalarLogical(code != 0 || end.si_pid != 0);
}

SEXP child_parent(void) {
  return Rf_ScalarInteger((int)getppid());
}
