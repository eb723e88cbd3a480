/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor.h"

#include <ctype.h>
#include <dirent.h>
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
#include <sys/prctl.h>
#endif

#define GRACE 10.0         /* seconds between asking the ranks to end and killing them */
#define LINGER 1.0         /* for what the ranks leave behind, and for who no longer reads output */
#define TICK 250           /* milliseconds of the longest wait */
#define PIECE (1 << 16)    /* bytes that are read at a time */
#define ROOM (1 << 20)     /* bytes that wait for a reader before ranks wait, too */
#define WRITE_MOST 4096    /* bytes that a pipe takes without waiting once it takes any */
#define DESCRIPTORS 65536L /* at most so many are closed */

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
enum { PASSED_ON = sizeof passed_on / sizeof *passed_on, ENDING = 4 };

typedef struct bytes {
  char *data;
  size_t length, room;
} bytes;

typedef struct output {
  int descriptor;
  bool lost; /* takes no bytes any more */
  bytes unwritten;
} output;

typedef struct stream { /* of a rank: its output, or its errors */
  int descriptor;       /* -1 at its end */
  int rank;
  output *to;
  bytes begun; /* a line that has not ended */
} stream;

static struct {
  const supervisor_job *job;
  pid_t *ranks; /* 0 when reaped */
  int alive;
  bool children; /* of any kind */
  stream *streams;
  int streams_count;
  output outputs[2];
  struct pollfd *entries;
  int failure;
  bool ending, asked; /* asked by a signal from outside */
  double deadline;
  int signals[2]; /* a pipe that handlers write to */
  int token;      /* a descriptor */
  char token_path[64];
} state;

static double now(void) {
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
static int exit_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void supervisor_adopt(bool adopts) {
#ifdef __linux__
  prctl(PR_SET_CHILD_SUBREAPER, (unsigned long)adopts, 0, 0, 0);
#else
  (void)adopts;
#endif
}

/* The parent of a process as /proc tells it, 0 where it does not. */
static pid_t parent_of(const char *process) {
  char path[64], line[512];
  int parent = 0;
  if (strlen(process) > 20 || !isdigit((unsigned char)process[0])) return 0;
  snprintf(path, sizeof path, "/proc/%s/stat", process);
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0;
  size_t length = fread(line, 1, sizeof line - 1, file);
  fclose(file);
  line[length] = '\0';
  const char *after_name = strrchr(line, ')');
  return after_name && sscanf(after_name + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* Kills the children that there are now; how many. */
static int kill_children(void) {
  int count = 0;
  DIR *folder = opendir("/proc");
  for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
    if (parent_of(entry->d_name) != getpid()) continue;
    kill((pid_t)atoi(entry->d_name), SIGKILL);
    count++;
  }
  if (folder) closedir(folder);
  return count;
}

void supervisor_kill_descendants(void) {
  while (kill_children() > 0)
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
}

static void kill_ranks(int number) {
  for (int rank = 0; rank < state.job->size; rank++)
    if (state.ranks[rank] > 0 && kill(-state.ranks[rank], number) != 0)
      kill(state.ranks[rank], number);
}

/* Reports the exit code of the job. An R package must not call _exit(), so a signal ends the process. */
static _Noreturn void end(int code) {
  if (write(state.job->lifeline, &code, sizeof code) < 0) code = 1; /* nobody waits for it */
  for (;;) raise(SIGKILL);
}

static _Noreturn void give_up(int code) {
  if (state.ranks) kill_ranks(SIGKILL);
  supervisor_kill_descendants();
  end(code);
}

/* ---- Output */

static void append(bytes *to, const char *data, size_t length) {
  if (to->length + length > to->room) {
    size_t room = 2 * (to->length + length);
    char *grown = realloc(to->data, room);
    if (grown == NULL) give_up(1);
    to->data = grown;
    to->room = room;
  }
  memcpy(to->data + to->length, data, length);
  to->length += length;
}

/* Prints a line of our own. */
static void say(const char *format, ...) {
  char text[1024] = "sparkring-run: ";
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + strlen(text), sizeof text - 16, format, arguments);
  va_end(arguments);
  strcat(text, "\n");
  append(&state.outputs[1].unwritten, text, strlen(text));
}

static void end_line(stream *from, const char *rest, size_t length) {
  char prefix[16];
  snprintf(prefix, sizeof prefix, "[%d] ", from->rank);
  append(&from->to->unwritten, prefix, strlen(prefix));
  append(&from->to->unwritten, from->begun.data, from->begun.length);
  append(&from->to->unwritten, rest, length);
  append(&from->to->unwritten, "\n", 1);
  from->begun.length = 0;
}

/* Reads once what a rank prints; false when nothing has come. */
static bool pump(stream *from) {
  static char piece[PIECE];
  ssize_t got = read(from->descriptor, piece, sizeof piece);
  if (got < 0) return errno == EINTR;
  const char *rest = piece;
  for (const char *end; (end = memchr(rest, '\n', (size_t)(piece + got - rest))) != NULL;) {
    end_line(from, rest, (size_t)(end - rest));
    rest = end + 1;
  }
  append(&from->begun, rest, (size_t)(piece + got - rest));
  if (got > 0) return true;
  if (from->begun.length > 0) end_line(from, "", 0);
  close(from->descriptor);
  from->descriptor = -1;
  return false;
}

static void pass_on(int number);

/* The reader has gone, or the disk is full: the job ends, as SIGPIPE ends a program. */
static void lose(output *to, int error) {
  to->lost = true;
  if (state.failure == 0) state.failure = error == EPIPE ? 128 + SIGPIPE : 1;
  if (!state.ending) pass_on(SIGTERM);
  if (error != EPIPE) say("cannot write what the ranks print: %s; ending them", strerror(error));
}

/* Writes what `to` takes at once. */
static void push(output *to) {
  bytes *left = &to->unwritten;
  size_t most = left->length < WRITE_MOST ? left->length : WRITE_MOST;
  ssize_t put = to->lost ? (ssize_t)left->length : write(to->descriptor, left->data, most);
  if (put < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (put < 0) {
    lose(to, errno);
    put = (ssize_t)left->length;
  }
  left->length -= (size_t)put;
  memmove(left->data, left->data + put, left->length);
}

/* ---- Starting ranks */

static void on_signal(int number) {
  int error = errno;
  char byte = (char)number;
  if (write(state.signals[1], &byte, 1) < 0) errno = error; /* full: there is enough to read */
  errno = error;
}

static bool make_pipe(int ends[2]) {
  if (pipe(ends) != 0) return false;
  for (int i = 0; i < 2; i++) fcntl(ends[i], F_SETFD, FD_CLOEXEC);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return true;
}

/* In the forked child: becomes the rank, or tells errno. */
static _Noreturn void be_rank(int rank, pid_t supervisor, int told, const int writers[2]) {
  char number[16];
  setpgid(0, 0);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
#endif
  if (getppid() != supervisor) raise(SIGKILL);
  if (rank > 0 || !state.job->input) {
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, 0);
  }
  for (int i = 0; i < 2; i++) dup2(writers[i], i + 1);
  snprintf(number, sizeof number, "%d", rank);
  setenv("SPARKRING_RANK", number, 1);
  setenv("SPARKRING_TOKEN_FILE", state.token_path, 1);
  long most = sysconf(_SC_OPEN_MAX);
  for (int other = 3; other < (most > 0 && most < DESCRIPTORS ? most : DESCRIPTORS); other++)
    if (other != told) close(other);
  signal(SIGCHLD, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &state.job->mask, NULL);
  execvp(state.job->command[0], state.job->command);
  int error = errno;
  for (ssize_t put = write(told, &error, sizeof error);; put = 0)
    raise(put < 0 ? SIGABRT : SIGKILL);
}

/* Starts a rank; 0 or an errno. */
static int start(int rank) {
  int out[2], err[2], told[2], error = 0;
  pid_t supervisor = getpid();
  if (!make_pipe(out) || !make_pipe(err) || !make_pipe(told)) return errno;
  pid_t process = fork();
  if (process < 0) return errno;
  if (process == 0) be_rank(rank, supervisor, told[1], (int[]){out[1], err[1]});
  setpgid(process, process); /* whoever is first */
  state.ranks[rank] = process;
  state.alive++;
  close(out[1]), close(err[1]), close(told[1]);
  state.streams[state.streams_count++] =
      (stream){.descriptor = out[0], .rank = rank, .to = &state.outputs[0]};
  state.streams[state.streams_count++] =
      (stream){.descriptor = err[0], .rank = rank, .to = &state.outputs[1]};
  fcntl(told[0], F_SETFL, 0);
  if (read(told[0], &error, sizeof error) != sizeof error) error = 0;
  close(told[0]);
  return error;
}

/* Starts all; when the command cannot be run, none stays. */
static void start_all(void) {
  for (int rank = 0; rank < state.job->size; rank++) {
    int error = start(rank);
    if (error == 0) continue;
    state.failure = error == ENOENT ? 127 : 126;
    state.ending = true;
    say("cannot run '%.500s': %s", state.job->command[0], strerror(error));
    kill_ranks(SIGKILL);
    return;
  }
}

/* ---- Ends */

static const char *describe(int status, char *text, size_t room) {
  static const struct {
    int number;
    const char *name;
  } names[] = {{SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"},
               {SIGILL, "SIGILL"},   {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},
               {SIGFPE, "SIGFPE"},   {SIGKILL, "SIGKILL"}, {SIGSEGV, "SIGSEGV"},
               {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"},
               {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGXCPU, "SIGXCPU"}};
  if (!WIFSIGNALED(status)) {
    snprintf(text, room, "failed with exit code %d", WEXITSTATUS(status));
    return text;
  }
  snprintf(text, room, "was killed by signal %d", WTERMSIG(status));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].number == WTERMSIG(status))
      snprintf(text, room, "was killed by %s", names[i].name);
  return text;
}

/* Sends a signal to the process groups of all ranks; after one to end, time runs. */
static void pass_on(int number) {
  bool ends = false;
  for (int i = 0; i < ENDING; i++) ends = ends || passed_on[i] == number;
  if (ends && !state.ending) {
    state.ending = true;
    state.deadline = now() + GRACE;
  }
  kill_ranks(number);
}

/* The first rank that fails ends the job. */
static void note_end(int rank, int status) {
  char text[64];
  if (state.failure != 0 || status == 0) return;
  state.failure = exit_code(status);
  bool others = state.alive > 0 && !state.ending;
  if (!state.ending) pass_on(SIGTERM);
  say("rank %d %s%s", rank, describe(status, text, sizeof text),
      others ? "; ending the others" : "");
}

static void reap(void) {
  int status;
  pid_t process;
  while ((process = waitpid(-1, &status, WNOHANG)) > 0) {
    for (int rank = 0; rank < state.job->size; rank++) {
      if (state.ranks[rank] != process) continue;
      state.ranks[rank] = 0;
      state.alive--;
#ifndef __linux__
      kill(-process, SIGKILL); /* nobody adopts its orphans */
#endif
      note_end(rank, status);
    }
  }
  state.children = process == 0;
}

/* ---- The loop */

static void obey(void) {
  char numbers[256];
  ssize_t got = read(state.signals[0], numbers, sizeof numbers);
  for (ssize_t i = 0; i < got; i++) {
    if (numbers[i] == SIGCHLD) continue;
    pass_on(numbers[i]);
    state.asked = state.asked || state.ending;
  }
}

static struct pollfd entry(int descriptor, short events, bool wanted) {
  return (struct pollfd){.fd = wanted ? descriptor : -1, .events = events};
}

/* Waits for output, a reader, a signal, or `milliseconds`, and handles it. */
static void turn(int milliseconds) {
  struct pollfd *entries = state.entries;
  bool room = true;
  for (int i = 0; i < 2; i++) {
    output *to = &state.outputs[i];
    entries[i] = entry(to->descriptor, POLLOUT, to->unwritten.length > 0);
    room = room && to->unwritten.length < ROOM;
  }
  entries[2] = entry(state.signals[0], POLLIN, true);
  entries[3] = entry(state.job->lifeline, POLLIN, true);
  for (int i = 0; i < state.streams_count; i++)
    entries[4 + i] = entry(state.streams[i].descriptor, POLLIN, room);
  if (poll(entries, 4 + (nfds_t)state.streams_count, milliseconds) > 0) {
    for (int i = 0; i < 2; i++)
      if (entries[i].revents) push(&state.outputs[i]);
    if (entries[2].revents) obey();
    if (entries[3].revents) give_up(1); /* nobody waits for the job any more */
    for (int i = 0; i < state.streams_count; i++)
      if (entries[4 + i].revents) pump(&state.streams[i]);
  }
  reap();
  if (now() < state.deadline) return;
  state.deadline = INFINITY;
  kill_ranks(SIGKILL);
}

/* Ends what the ranks have left behind. */
static void sweep(void) {
  double until = now() + (state.ending ? 0 : LINGER);
  for (reap(); state.children; turn(20))
    if (now() >= until) kill_children();
}

/* All writers are dead: what they have left is written, unless the reader of a job that was asked to
 * end has stopped reading. */
static void drain(void) {
  double until = now() + LINGER;
  for (int i = 0; i < state.streams_count; i++)
    while (state.streams[i].descriptor >= 0 && pump(&state.streams[i])) continue;
  for (int i = 0; i < state.streams_count; i++)
    if (state.streams[i].begun.length > 0) end_line(&state.streams[i], "", 0);
  while (state.outputs[0].unwritten.length + state.outputs[1].unwritten.length > 0) {
    if (state.asked && now() > until) return;
    turn(TICK);
  }
}

/* A file with the token that only this user can open, and that goes with this process. */
static bool keep_token(void) {
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

static bool prepare(const supervisor_job *job) {
  state.deadline = INFINITY;
  for (int i = 0; i < 2; i++) state.outputs[i] = (output){.descriptor = job->outputs[i]};
  state.streams = calloc(2 * (size_t)job->size, sizeof *state.streams);
  state.entries = calloc(4 + 2 * (size_t)job->size, sizeof *state.entries);
  state.ranks = calloc((size_t)job->size, sizeof *state.ranks);
  if (!state.streams || !state.entries || !state.ranks) return false;
  if (!keep_token() || !make_pipe(state.signals)) return false;
  fcntl(state.signals[1], F_SETFL, O_NONBLOCK);
  return true;
}

static void watch_signals(void) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigset_t passed;
  supervisor_signals(&passed);
  sigfillset(&action.sa_mask);
  for (int i = 0; i < PASSED_ON; i++)
    if (sigismember(&passed, passed_on[i])) sigaction(passed_on[i], &action, NULL);
  sigaction(SIGCHLD, &action, NULL);
  signal(SIGPIPE, SIG_IGN);
}

_Noreturn void supervise(const supervisor_job *job) {
  state.job = job;
  setsid();
  supervisor_adopt(true);
  if (!prepare(job)) {
    dprintf(job->outputs[1], "sparkring-run: cannot run the job: %s\n", strerror(errno));
    end(1);
  }
  watch_signals();
  start_all();
  sigset_t mask = job->mask;
  sigdelset(&mask, SIGCHLD);
  sigprocmask(SIG_SETMASK, &mask, NULL);
  while (state.alive > 0) turn(TICK);
  sweep();
#ifndef __linux__
  unlink(state.token_path);
#endif
  drain();
  end(state.failure);
}
