/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor.h"

#include "line_output.h"
#include "process_start.h"
#include "process_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#define GRACE 10.0 /* seconds between asking the ranks to end and killing them */
#define LINGER 1.0 /* seconds for descendants of the ranks, and for a reader that does not read */
#define TICK 250   /* milliseconds of the longest wait */
#define BACKLOG (1 << 20) /* bytes of unread output from which on ranks block, too */

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
enum { PASSED_ON = sizeof passed_on / sizeof *passed_on, ENDING = 4 };

static struct {
  const supervisor_job *job;
  pid_t *ranks; /* 0 when reaped */
  int alive;
  bool children; /* of any kind */
  line_stream *streams;
  int streams_count;
  line_output outputs[2];
  struct pollfd *entries;
  int failure;
  bool ending, asked; /* asked by a signal from outside */
  double deadline;
  int signals[2]; /* a pipe that handlers write to */
  int token;      /* a descriptor */
  char token_path[64];
} state;

static double supervisor_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- Processes */

void supervisor_signals(sigset_t *set) {
  sigemptyset(set);
  for (int i = 0; i < PASSED_ON; i++) {
    struct sigaction action;
    sigaction(passed_on[i], NULL, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(set, passed_on[i]);
  }
}

/* As shells do: 128 + number for a signal. */
static int supervisor_exit_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void supervisor_kill_ranks(int number) {
  for (int rank = 0; rank < state.job->size; rank++)
    if (state.ranks[rank] > 0 && kill(-state.ranks[rank], number) != 0)
      kill(state.ranks[rank], number);
}

/* Reports the exit code of the job. An R package must not call _exit(), so a signal ends the process. */
static _Noreturn void supervisor_exit(int code) {
  if (write(state.job->lifeline, &code, sizeof code) < 0) code = 1; /* the launcher has ended */
  for (;;) raise(SIGKILL);
}

static _Noreturn void supervisor_abort(int code) {
  if (state.ranks) supervisor_kill_ranks(SIGKILL);
  process_tree_kill();
  supervisor_exit(code);
}

/* ---- Output */

/* Prints a line of the launcher. */
static void supervisor_report(const char *format, ...) {
  char text[1024] = "sparkring-run: ";
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + strlen(text), sizeof text - 16, format, arguments);
  va_end(arguments);
  strcat(text, "\n");
  line_output_put(&state.outputs[1], text);
}

/* Sends a signal to the process groups of all ranks. A signal to end sets the deadline. */
static void supervisor_forward(int number) {
  bool ends = false;
  for (int i = 0; i < ENDING; i++) ends = ends || passed_on[i] == number;
  if (ends && !state.ending) {
    state.ending = true;
    state.deadline = supervisor_now() + GRACE;
  }
  supervisor_kill_ranks(number);
}

/* Ends the job after its output was lost: the reader has closed the pipe, or the disk is full. */
static void supervisor_lose_output(int error) {
  if (state.failure == 0) state.failure = error == EPIPE ? 128 + SIGPIPE : 1;
  if (!state.ending) supervisor_forward(SIGTERM);
  if (error != EPIPE)
    supervisor_report("cannot write the output of the ranks: %s; ending the ranks",
                      strerror(error));
}

/* ---- Starting ranks */

static void supervisor_on_signal(int number) {
  int error = errno;
  char byte = (char)number;
  if (write(state.signals[1], &byte, 1) < 0) errno = error; /* full: there is enough to read */
  errno = error;
}

static bool supervisor_make_pipe(int ends[2]) {
  if (pipe(ends) != 0) return false;
  for (int i = 0; i < 2; i++) fcntl(ends[i], F_SETFD, FD_CLOEXEC);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return true;
}

typedef struct supervisor_rank {
  int rank;
  int writers[2]; /* descriptors for its output and its errors */
} supervisor_rank;

/* Runs in the child that becomes the rank. */
static void supervisor_prepare_rank(const void *data) {
  const supervisor_rank *rank = data;
  char number[16];
  if (rank->rank > 0 || !state.job->input) {
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, 0);
  }
  for (int i = 0; i < 2; i++) dup2(rank->writers[i], i + 1);
  snprintf(number, sizeof number, "%d", rank->rank);
  setenv("SPARKRING_RANK", number, 1);
  setenv("SPARKRING_TOKEN_FILE", state.token_path, 1);
}

/* Starts a rank; 0 or an errno. */
static int supervisor_start(int rank) {
  int out[2], err[2];
  if (!supervisor_make_pipe(out) || !supervisor_make_pipe(err)) return errno;
  supervisor_rank data = {.rank = rank, .writers = {out[1], err[1]}};
  process_start start = {.command = state.job->command,
                         .prepare = supervisor_prepare_rank,
                         .data = &data,
                         .descriptors = 3,
                         .mask = state.job->mask};
  int error = process_start_run(&start, &state.ranks[rank]);
  close(out[1]), close(err[1]);
  if (state.ranks[rank] == 0) return error;
  state.alive++;
  state.streams[state.streams_count++] =
      (line_stream){.descriptor = out[0], .rank = rank, .to = &state.outputs[0]};
  state.streams[state.streams_count++] =
      (line_stream){.descriptor = err[0], .rank = rank, .to = &state.outputs[1]};
  return error;
}

/* Starts all ranks. Kills the started ranks when the command cannot be run. */
static void supervisor_start_all(void) {
  for (int rank = 0; rank < state.job->size; rank++) {
    int error = supervisor_start(rank);
    if (error == 0) continue;
    state.failure = error == ENOENT ? 127 : 126;
    state.ending = true;
    supervisor_report("cannot run '%.500s': %s", state.job->command[0], strerror(error));
    supervisor_kill_ranks(SIGKILL);
    return;
  }
}

/* ---- Ends */

/* The first rank that fails ends the job. */
static void supervisor_record_end(int rank, int status) {
  char text[64];
  if (state.failure != 0 || status == 0) return;
  state.failure = supervisor_exit_code(status);
  bool others = state.alive > 0 && !state.ending;
  if (!state.ending) supervisor_forward(SIGTERM);
  supervisor_report("rank %d %s%s", rank, process_tree_describe(status, text, sizeof text),
                    others ? "; ending the others" : "");
}

static void supervisor_reap(void) {
  int status;
  pid_t process;
  while ((process = waitpid(-1, &status, WNOHANG)) > 0) {
    for (int rank = 0; rank < state.job->size; rank++) {
      if (state.ranks[rank] != process) continue;
      state.ranks[rank] = 0;
      state.alive--;
#ifndef __linux__
      kill(-process, SIGKILL); /* no process adopts its orphans */
#endif
      supervisor_record_end(rank, status);
    }
  }
  state.children = process == 0;
}

/* ---- The loop */

static void supervisor_read_signals(void) {
  char numbers[256];
  ssize_t got = read(state.signals[0], numbers, sizeof numbers);
  for (ssize_t i = 0; i < got; i++) {
    if (numbers[i] == SIGCHLD) continue;
    supervisor_forward(numbers[i]);
    state.asked = state.asked || state.ending;
  }
}

static struct pollfd supervisor_entry(int descriptor, short events, bool wanted) {
  return (struct pollfd){.fd = wanted ? descriptor : -1, .events = events};
}

static void supervisor_write(int output) {
  int error = line_output_write(&state.outputs[output]);
  if (error != 0) supervisor_lose_output(error);
}

/* Waits for output, a reader, a signal, or `milliseconds`, and handles it. */
static void supervisor_poll(int milliseconds) {
  struct pollfd *entries = state.entries;
  bool takes = true;
  for (int i = 0; i < 2; i++) {
    line_output *to = &state.outputs[i];
    entries[i] = supervisor_entry(to->descriptor, POLLOUT, to->unwritten.length > 0);
    takes = takes && to->unwritten.length < BACKLOG;
  }
  entries[2] = supervisor_entry(state.signals[0], POLLIN, true);
  entries[3] = supervisor_entry(state.job->lifeline, POLLIN, true);
  for (int i = 0; i < state.streams_count; i++)
    entries[4 + i] = supervisor_entry(state.streams[i].descriptor, POLLIN, takes);
  if (poll(entries, 4 + (nfds_t)state.streams_count, milliseconds) > 0) {
    for (int i = 0; i < 2; i++)
      if (entries[i].revents) supervisor_write(i);
    if (entries[2].revents) supervisor_read_signals();
    if (entries[3].revents) supervisor_abort(1); /* the launcher has ended */
    for (int i = 0; i < state.streams_count; i++)
      if (entries[4 + i].revents) line_output_read(&state.streams[i]);
  }
  if (line_output_out_of_memory()) supervisor_abort(1);
  supervisor_reap();
  if (supervisor_now() < state.deadline) return;
  state.deadline = INFINITY;
  supervisor_kill_ranks(SIGKILL);
}

/* Kills the processes that the ranks have started, after LINGER seconds. */
static void supervisor_kill_descendants(void) {
  double until = supervisor_now() + (state.ending ? 0 : LINGER);
  for (supervisor_reap(); state.children; supervisor_poll(20))
    if (supervisor_now() >= until) process_tree_kill_children();
}

/* Writes the rest of the output, when all ranks have ended. After a request to end, a reader that does not
 * read has LINGER seconds. */
static void supervisor_flush(void) {
  double until = supervisor_now() + LINGER;
  for (int i = 0; i < state.streams_count; i++)
    while (state.streams[i].descriptor >= 0 && line_output_read(&state.streams[i])) continue;
  for (int i = 0; i < state.streams_count; i++)
    if (state.streams[i].begun.length > 0) line_output_end_line(&state.streams[i], "", 0);
  while (state.outputs[0].unwritten.length + state.outputs[1].unwritten.length > 0) {
    if (state.asked && supervisor_now() > until) return;
    supervisor_poll(TICK);
  }
}

/* Makes a file with the token. Only this user can open it, and it ends with this process. */
static bool supervisor_keep_token(void) {
  const char *token = state.job->token;
#ifdef __linux__
  state.token = memfd_create("sparkring token", MFD_CLOEXEC);
  snprintf(state.token_path, sizeof state.token_path, "/proc/%d/fd/%d", (int)getpid(), state.token);
#else
  strcpy(state.token_path, "/tmp/sparkring.XXXXXX");
  state.token = mkstemp(state.token_path);
#endif
  return state.token >= 0 && fchmod(state.token, 0400) == 0 &&
         write(state.token, token, strlen(token)) == (ssize_t)strlen(token);
}

static bool supervisor_prepare(const supervisor_job *job) {
  state.deadline = INFINITY;
  for (int i = 0; i < 2; i++) state.outputs[i] = (line_output){.descriptor = job->outputs[i]};
  state.streams = calloc(2 * (size_t)job->size, sizeof *state.streams);
  state.entries = calloc(4 + 2 * (size_t)job->size, sizeof *state.entries);
  state.ranks = calloc((size_t)job->size, sizeof *state.ranks);
  if (!state.streams || !state.entries || !state.ranks) return false;
  if (!supervisor_keep_token() || !supervisor_make_pipe(state.signals)) return false;
  fcntl(state.signals[1], F_SETFL, O_NONBLOCK);
  return true;
}

static void supervisor_watch_signals(void) {
  struct sigaction action = {.sa_handler = supervisor_on_signal, .sa_flags = SA_RESTART};
  sigset_t passed;
  supervisor_signals(&passed);
  sigfillset(&action.sa_mask);
  for (int i = 0; i < PASSED_ON; i++)
    if (sigismember(&passed, passed_on[i])) sigaction(passed_on[i], &action, NULL);
  sigaction(SIGCHLD, &action, NULL);
}

_Noreturn void supervise(const supervisor_job *job) {
  state.job = job;
  signal(SIGPIPE, SIG_IGN); /* R's handler would continue the R code of the launcher */
  setsid();
  process_tree_adopt(true);
  if (!supervisor_prepare(job)) {
    dprintf(job->outputs[1], "sparkring-run: cannot run the job: %s\n", strerror(errno));
    supervisor_exit(1);
  }
  supervisor_watch_signals();
  supervisor_start_all();
  sigset_t mask = job->mask;
  sigdelset(&mask, SIGCHLD);
  sigprocmask(SIG_SETMASK, &mask, NULL);
  while (state.alive > 0) supervisor_poll(TICK);
  supervisor_kill_descendants();
#ifndef __linux__
  unlink(state.token_path);
#endif
  supervisor_flush();
  supervisor_exit(state.failure);
}
