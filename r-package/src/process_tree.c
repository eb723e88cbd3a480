/* SPDX-License-Identifier: Apache-2.0 */
#include "process_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

void process_tree_adopt(bool adopts) {
#ifdef __linux__
  prctl(PR_SET_CHILD_SUBREAPER, (unsigned long)adopts, 0, 0, 0);
#else
  (void)adopts;
#endif
}

/* The parent of a process by /proc, 0 where /proc does not have it. */
static pid_t process_tree_parent(const char *process) {
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

int process_tree_kill_children(void) {
  int count = 0;
  DIR *directory = opendir("/proc");
  for (struct dirent *entry; directory && (entry = readdir(directory)) != NULL;) {
    if (process_tree_parent(entry->d_name) != getpid()) continue;
    kill((pid_t)atoi(entry->d_name), SIGKILL);
    count++;
  }
  if (directory) closedir(directory);
  return count;
}

void process_tree_kill(void) {
  while (process_tree_kill_children() > 0)
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
}

const char *process_tree_describe(int status, char *text, size_t capacity) {
  static const struct {
    int number;
    const char *name;
  } names[] = {{SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"},
               {SIGILL, "SIGILL"},   {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},
               {SIGFPE, "SIGFPE"},   {SIGKILL, "SIGKILL"}, {SIGSEGV, "SIGSEGV"},
               {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"},
               {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGXCPU, "SIGXCPU"}};
  if (!WIFSIGNALED(status)) {
    snprintf(text, capacity, "failed with exit code %d", WEXITSTATUS(status));
    return text;
  }
  snprintf(text, capacity, "was killed by signal %d", WTERMSIG(status));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].number == WTERMSIG(status))
      snprintf(text, capacity, "was killed by %s", names[i].name);
  return text;
}
