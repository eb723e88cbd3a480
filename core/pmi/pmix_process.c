/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmix_process.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd_registry.h"
#include "base/platform.h"
#include "pmi/pmix_directory.h"

#define PROCESS_PATIENCE_NS UINT64_C(2000000000) /* of the end */
#define PROCESS_EXIT_NS UINT64_C(500000000) /* from the end of the socket to that of the process */

#ifndef __linux__
extern char **environ; /* which no header has */
#endif

/* ---- Starting ----------------------------------------------------------------------------- */

static const char pmix_process_name[] = "sparkring-pmix";

static bool pmix_process_problem(char problem[RING_PMIX_PROBLEM], const char *what, int code) {
  snprintf(problem, RING_PMIX_PROBLEM, "%.160s: %s", what, strerror(code));
  return false;
}

/* Whether the executable is at that place of the folder of this code. */
static bool pmix_process_is_at(const char *file, const char *place, char path[PATH_MAX]) {
  const char *end = strrchr(file, '/');
  int folder = end != NULL ? (int)(end - file) + 1 : 0;
  int length = snprintf(path, PATH_MAX, "%.*s%s%s", folder, file, place, pmix_process_name);
  return length < PATH_MAX && access(path, X_OK) == 0;
}

static bool pmix_process_find(char path[PATH_MAX], char problem[RING_PMIX_PROBLEM]) {
  const char *named = getenv("SPARKRING_PMIX_SERVER"), *here = "";
  Dl_info info;
  if (named != NULL && named[0] != '\0') {
    int length = snprintf(path, PATH_MAX, "%s", named);
    if (length < PATH_MAX && access(path, X_OK) == 0) return true;
    return pmix_process_problem(problem, named, length < PATH_MAX ? errno : ENAMETOOLONG);
  }
  if (dladdr(pmix_process_name, &info) != 0 && info.dli_fname != NULL) here = info.dli_fname;
  if (pmix_process_is_at(here, "../bin/", path) || pmix_process_is_at(here, "", path)) return true;
  snprintf(problem, RING_PMIX_PROBLEM, "sparkring was installed without PMIx: there is no %.120s",
           path);
  return false;
}

/* Descriptor 0 of the server is its end of the socket. The server starts with the default action for all signals,
 * none of which is blocked, and does not get those of the terminal. 0 or an errno. */
static int pmix_process_spawn(ring_pmix_process *process, char *path, int socket) {
  char parent[24];
  char *command[] = {path, parent, NULL};
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t signals;
  snprintf(parent, sizeof parent, "%ld", (long)getpid());
  int code = posix_spawn_file_actions_init(&files);
  if (code != 0) return code;
  code = posix_spawnattr_init(&attributes);
  if (code == 0) {
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    code = posix_spawn_file_actions_adddup2(&files, socket, 0);
    if (code == 0) code = posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    if (code == 0) code = posix_spawn(&process->pid, path, &files, &attributes, command, environ);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&files);
  if (code != 0) process->pid = 0;
  return code;
}

/* 0 or an errno. */
static int pmix_process_connect(ring_pmix_process *process, char *path) {
  int ends[2];
  ring_fd_begin();
  int code = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0 ? 0 : errno;
  if (code == 0) ring_fd_add(ends[1]);
  process->channel.fd = ring_fd_end(code == 0 ? ends[0] : -1);
  if (code != 0) return code;
  code = pmix_process_spawn(process, path, ends[1]);
  ring_fd_close(ends[1]);
  if (code != 0) ring_fd_close(process->channel.fd);
  return code;
}

bool ring_pmix_process_start(ring_pmix_process *process, char problem[RING_PMIX_PROBLEM]) {
  char path[PATH_MAX];
  *process = (ring_pmix_process){.channel.fd = -1};
  if (!pmix_process_find(path, problem)) return false;
  if (!ring_pmix_directory_make(process->directory, sizeof process->directory))
    return pmix_process_problem(problem, process->directory, errno);
  int code = pmix_process_connect(process, path);
  if (code == 0) return true;
  ring_pmix_directory_remove(process->directory);
  return pmix_process_problem(problem, path, code);
}

/* ---- Ending ------------------------------------------------------------------------------- */

/* Waits until the server has ended, for a while. False: it runs. *status: -1 where another wait has it. */
static bool pmix_process_reap(pid_t pid, uint64_t nanoseconds, int *status) {
  uint64_t until = ring_platform_now() + nanoseconds;
  for (;;) {
    pid_t ended = waitpid(pid, status, WNOHANG);
    if (ended < 0 && errno != EINTR) *status = -1;
    if (ended == pid || (ended < 0 && errno != EINTR)) return true;
    if (ring_platform_now() >= until) return false;
    usleep(500);
  }
}

void ring_pmix_process_describe(ring_pmix_process *process, char problem[RING_PMIX_PROBLEM]) {
  int status;
  bool ended = pmix_process_reap(process->pid, PROCESS_EXIT_NS, &status);
  if (!ended || status == -1) {
    snprintf(problem, RING_PMIX_PROBLEM, "has closed its connection");
  } else if (WIFSIGNALED(status)) {
    snprintf(problem, RING_PMIX_PROBLEM, "was killed by signal %d (%s)", WTERMSIG(status),
             strsignal(WTERMSIG(status)));
  } else {
    snprintf(problem, RING_PMIX_PROBLEM, "ended with exit code %d", WEXITSTATUS(status));
  }
  if (ended) process->pid = -1;
}

/* Reads until the server closes its end, which it does when it has removed what is registered for that. */
static void pmix_process_await_end(int fd) {
  char bytes[4096];
  uint64_t until = ring_platform_now() + PROCESS_PATIENCE_NS, now;
  shutdown(fd, SHUT_WR);
  while ((now = ring_platform_now()) < until) {
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    int ready = poll(&entry, 1, (int)((until - now) / 1000000) + 1);
    if (ready > 0 && recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) <= 0) return;
  }
}

void ring_pmix_process_end(ring_pmix_process *process) {
  int status;
  if (process->pid == 0) return;
  if (process->pid > 0) {
    pmix_process_await_end(process->channel.fd);
    if (!pmix_process_reap(process->pid, PROCESS_EXIT_NS, &status)) {
      kill(process->pid, SIGKILL);
      while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR) continue;
    }
  }
  ring_pmix_process_forget(process);
  ring_pmix_directory_remove(process->directory);
}

void ring_pmix_process_forget(ring_pmix_process *process) {
  if (process->pid == 0) return;
  ring_fd_close(process->channel.fd);
  ring_pmix_channel_free(&process->channel);
  process->pid = 0;
}
