/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch/line_output.h"
#include "launch/process_end.h"
#include "launch/process_start.h"
#include "launch/process_tree.h"
#include "launch/token_file.h"

#define GRACE 10.0
#define LINGER 1.0
#define TICK 250000 /* microseconds of the longest wait, and of the longest write that blocks */
#define SWEEP 20    /* milliseconds between two looks for what ranks have left */
#define BACKLOG (1 << 20) /* bytes of unread output from which on ranks block, too */

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
enum { FORWARDED = sizeof forwarded / sizeof *forwarded, ENDING = 4 };

static struct {
  const ring_supervision *given;
  const ring_job *job;
  double grace, linger;
  pid_t *ranks; /* 0 when reaped */
  int alive;
  bool children; /* of any kind */
  ring_line_stream *streams;
  int streams_count;
  ring_line_output outputs[2];
  struct pollfd *entries;
  int failure;
  bool aborted;       /* the launcher has ended, or there is no memory */
  bool ending, asked; /* asked by a signal from outside */
  double deadline;
  int signals[2]; /* a pipe that handlers write to */
  ring_token_file token;
} state;

static double supervisor_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- Signals to ranks --------------------------------------------------------------------- */

void ring_supervisor_signals(sigset_t *set) {
  sigemptyset(set);
  for (int i = 0; i < FORWARDED; i++) {
    struct sigaction action;
    sigaction(forwarded[i], NULL, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(set, forwarded[i]);
  }
}

static void supervisor_kill_ranks(int number) {
  for (int rank = 0; rank < state.job->size; rank++)
    if (state.ranks[rank] > 0 && kill(-state.ranks[rank], number) != 0)
      kill(state.ranks[rank], number);
}

/* Sends a signal to the process groups of all ranks. A signal to end sets the deadline. */
static void supervisor_forward(int number) {
  bool ends = false;
  for (int i = 0; i < ENDING; i++) ends = ends || forwarded[i] == number;
  if (ends && !state.ending) {
    state.ending = true;
    state.deadline = supervisor_now() + state.grace;
  }
  supervisor_kill_ranks(number);
}

/* ---- Output ------------------------------------------------------------------------------- */

/* Prints a line of the launcher. */
static void supervisor_report(const char *format, ...) {
  char text[1024] = "sparkring-run: ";
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + strlen(text), sizeof text - 16, format, arguments);
  va_end(arguments);
  strcat(text, "\n");
  ring_line_output_put(&state.outputs[1], text);
}

/* Ends the job after its output was lost: the reader has closed the pipe, or the disk is full. */
static void supervisor_lose_output(int error) {
  if (state.failure == 0) state.failure = error == EPIPE ? 128 + SIGPIPE : 1;
  if (!state.ending) supervisor_forward(SIGTERM);
  if (error != EPIPE)
    supervisor_report("cannot write the output of the ranks: %s; ending the ranks",
                      strerror(error));
}

static void supervisor_write(int output) {
  int error = ring_line_output_write(&state.outputs[output]);
  if (error != 0) supervisor_lose_output(error);
}

/* ---- Starting ranks ----------------------------------------------------------------------- */

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
}

/* Starts a rank; 0 or an errno. */
static int supervisor_start(int rank) {
  int out[2], err[2];
  if (!supervisor_make_pipe(out) || !supervisor_make_pipe(err)) return errno;
  supervisor_rank data = {.rank = rank, .writers = {out[1], err[1]}};
  ring_process_start start = {.command = state.job->command,
                              .prepare = supervisor_prepare_rank,
                              .data = &data,
                              .descriptors = 3,
                              .mask = state.given->mask};
  int error = ring_process_start_run(&start, &state.ranks[rank]);
  close(out[1]), close(err[1]);
  if (state.ranks[rank] == 0) return error;
  state.alive++;
  state.streams[state.streams_count++] =
      (ring_line_stream){.descriptor = out[0], .rank = rank, .to = &state.outputs[0]};
  state.streams[state.streams_count++] =
      (ring_line_stream){.descriptor = err[0], .rank = rank, .to = &state.outputs[1]};
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

/* ---- Ends of ranks ------------------------------------------------------------------------ */

/* The first rank that fails ends the job. */
static void supervisor_record_end(int rank, int status) {
  char text[64];
  if (state.failure != 0 || status == 0) return;
  state.failure = ring_process_end_code(status);
  bool others = state.alive > 0 && !state.ending;
  if (!state.ending) supervisor_forward(SIGTERM);
  supervisor_report("rank %d %s%s", rank, ring_process_end_describe(status, text, sizeof text),
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

/* ---- The loop ----------------------------------------------------------------------------- */

static void supervisor_read_signals(void) {
  char numbers[256];
  ssize_t got = read(state.signals[0], numbers, sizeof numbers);
  for (ssize_t i = 0; i < got; i++) {
    if (numbers[i] == SIGCHLD || numbers[i] == SIGALRM) continue;
    supervisor_forward(numbers[i]);
    state.asked = state.asked || state.ending;
  }
}

/* Fills state.entries; returns their number. */
static nfds_t supervisor_entries(void) {
  struct pollfd *entries = state.entries;
  bool takes = true;
  for (int i = 0; i < 2; i++) {
    const ring_line_output *to = &state.outputs[i];
    entries[i] = (struct pollfd){to->unwritten.length > 0 ? to->descriptor : -1, POLLOUT, 0};
    takes = takes && to->unwritten.length < BACKLOG;
  }
  entries[2] = (struct pollfd){state.signals[0], POLLIN, 0};
  entries[3] = (struct pollfd){RING_SUPERVISOR_LIFELINE, POLLIN, 0};
  for (int i = 0; i < state.streams_count; i++)
    entries[4 + i] = (struct pollfd){takes ? state.streams[i].descriptor : -1, POLLIN, 0};
  return 4 + (nfds_t)state.streams_count;
}

/* Waits for output, a reader, a signal, a tick, or `milliseconds` unless -1, and handles it. */
static void supervisor_poll(int milliseconds) {
  nfds_t count = supervisor_entries();
  const struct pollfd *entries = state.entries;
  if (poll(state.entries, count, milliseconds) > 0) {
    for (int i = 0; i < 2; i++)
      if (entries[i].revents) supervisor_write(i);
    if (entries[2].revents) supervisor_read_signals();
    if (entries[3].revents) state.aborted = true;
    for (int i = 0; i < state.streams_count; i++)
      if (entries[4 + i].revents) ring_line_output_read(&state.streams[i]);
  }
  supervisor_reap();
  /* A process that the launcher has forked, too, may keep the lifeline open. */
  if (getppid() != state.given->launcher || ring_line_output_out_of_memory()) state.aborted = true;
  if (supervisor_now() < state.deadline) return;
  state.deadline = INFINITY;
  supervisor_kill_ranks(SIGKILL);
}

/* Kills the processes that the ranks have started, after a while. */
static void supervisor_sweep(void) {
  double until = supervisor_now() + (state.ending ? 0 : state.linger);
  for (supervisor_reap(); state.children && !state.aborted; supervisor_poll(SWEEP))
    if (supervisor_now() >= until) ring_process_tree_kill_children();
}

/* Writes the rest of the output, when all ranks have ended. After a request to end, a reader that does not read has a
 * while. */
static void supervisor_flush(void) {
  double until = INFINITY;
  for (int i = 0; i < state.streams_count; i++) ring_line_output_drain(&state.streams[i]);
  while (state.outputs[0].unwritten.length + state.outputs[1].unwritten.length > 0) {
    if (state.asked && until == INFINITY) until = supervisor_now() + state.linger;
    if (state.aborted || supervisor_now() > until) return;
    supervisor_poll(-1);
  }
}

/* ---- The process -------------------------------------------------------------------------- */

static void supervisor_on_signal(int number) {
  int error = errno;
  char byte = (char)number;
  if (write(state.signals[1], &byte, 1) < 0) errno = error; /* full: there is enough to read */
  errno = error;
}

/* Calls of the system end with a signal. A tick ends a write that blocks, since another process may fill a pipe that
 * poll() has found writable, and a signal may come just before the write. */
static void supervisor_watch_signals(void) {
  struct sigaction action = {.sa_handler = supervisor_on_signal};
  struct itimerval clock = {{0, TICK}, {0, TICK}};
  sigset_t caught;
  ring_supervisor_signals(&caught);
  sigaddset(&caught, SIGCHLD);
  sigaddset(&caught, SIGALRM);
  sigfillset(&action.sa_mask);
  for (int number = 1; number < NSIG; number++)
    if (sigismember(&caught, number) == 1) sigaction(number, &action, NULL);
  ring_process_tree_watch_parent(SIGCHLD);
  setitimer(ITIMER_REAL, &clock, NULL);
}

/* "127.0.0.1" as often as there are ranks. */
static bool supervisor_set_addresses(int size) {
  static const char address[] = "127.0.0.1,";
  const size_t length = sizeof address - 1;
  char *all = malloc((size_t)size * length);
  if (all == NULL) return false;
  for (int i = 0; i < size; i++) memcpy(all + (size_t)i * length, address, length);
  all[(size_t)size * length - 1] = '\0';
  bool set = setenv("SPARKRING_ADDRESSES", all, 1) == 0;
  free(all);
  return set;
}

/* Sets the environment of this process, which the ranks inherit. Ranks do not put their number before their lines
 * where SPARKRING_LAUNCHER is set. */
static bool supervisor_set_environment(void) {
  char size[16];
  snprintf(size, sizeof size, "%d", state.job->size);
  setenv("PYTHONUNBUFFERED", "1", 0); /* lines come when they are printed */
  unsetenv("SPARKRING_ROOT_ADDRESS");
  unsetenv("SPARKRING_TOKEN");
  return setenv("SPARKRING_LAUNCHER", "1", 1) == 0 && setenv("SPARKRING_SIZE", size, 1) == 0 &&
         setenv("SPARKRING_TOKEN_FILE", state.token.path, 1) == 0 &&
         supervisor_set_addresses(state.job->size) &&
         ring_process_start_set(state.job->variables) == 0;
}

/* False, with errno. */
static bool supervisor_prepare(const ring_supervision *supervision) {
  const ring_job *job = supervision->job;
  state.given = supervision;
  state.job = job;
  state.grace = job->grace > 0 ? job->grace : GRACE;
  state.linger = job->linger > 0 ? job->linger : LINGER;
  state.deadline = INFINITY;
  for (int i = 0; i < 2; i++) state.outputs[i] = (ring_line_output){.descriptor = i + 1};
  state.streams = calloc(2 * (size_t)job->size, sizeof *state.streams);
  state.entries = calloc(4 + 2 * (size_t)job->size, sizeof *state.entries);
  state.ranks = calloc((size_t)job->size, sizeof *state.ranks);
  if (!state.streams || !state.entries || !state.ranks) return false;
  if (!ring_token_file_open(&state.token) || !supervisor_make_pipe(state.signals)) return false;
  fcntl(state.signals[1], F_SETFL, O_NONBLOCK);
  return supervisor_set_environment();
}

/* Runs the job to its end. */
static void supervisor_run(void) {
  supervisor_start_all();
  sigset_t mask = state.given->mask;
  sigdelset(&mask, SIGCHLD);
  sigdelset(&mask, SIGALRM);
  sigprocmask(SIG_SETMASK, &mask, NULL);
  while (state.alive > 0 && !state.aborted) supervisor_poll(-1);
  if (!state.aborted) supervisor_sweep();
  if (!state.aborted) supervisor_flush();
  if (!state.aborted) return;
  state.failure = 1;
  supervisor_kill_ranks(SIGKILL);
  ring_process_tree_kill(NULL);
}

int ring_supervise(const ring_supervision *supervision) {
  const ring_job *job = supervision->job;
  int descriptors[] = {0, job->outputs[0], job->outputs[1], supervision->lifeline};
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  setsid();
  ring_process_tree_adopt();
  ring_process_start_arrange(descriptors, RING_SUPERVISOR_LIFELINE + 1);
  if (!supervisor_prepare(supervision)) {
    dprintf(2, "sparkring-run: cannot run the job: %s\n", strerror(errno));
    return 1;
  }
  supervisor_watch_signals();
  supervisor_run();
  ring_token_file_close(&state.token);
  return state.failure;
}
