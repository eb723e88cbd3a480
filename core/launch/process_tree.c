/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/process_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

void ring_process_tree_adopt(void) {
#ifdef __linux__
  prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0, 0, 0);
#endif
}

void ring_process_tree_watch_parent(int number) {
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, (unsigned long)number, 0, 0, 0);
#else
  (void)number;
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

/* The next child of this process in a directory that is /proc; 0 at the end. */
static pid_t process_tree_next(DIR *directory) {
  struct dirent *entry;
  while (directory != NULL && (entry = readdir(directory)) != NULL)
    if (process_tree_parent(entry->d_name) == getpid()) return (pid_t)atoi(entry->d_name);
  return 0;
}

pid_t *ring_process_tree_children(void) {
  pid_t *children = NULL, child;
  size_t count = 0;
  DIR *directory = opendir("/proc");
  while ((child = process_tree_next(directory)) != 0) {
    pid_t *grown = realloc(children, (count + 2) * sizeof *children);
    if (grown == NULL) break;
    children = grown;
    children[count++] = child;
    children[count] = 0;
  }
  if (directory != NULL) closedir(directory);
  return children;
}

static bool process_tree_has(const pid_t *list, pid_t process) {
  for (; list != NULL && *list != 0; list++)
    if (*list == process) return true;
  return false;
}

/* Kills the present children, and waits for each if `reaps`. Returns their number. */
static int process_tree_kill_present(const pid_t *spared, bool reaps) {
  int count = 0;
  pid_t child;
  DIR *directory = opendir("/proc");
  while ((child = process_tree_next(directory)) != 0) {
    if (process_tree_has(spared, child)) continue;
    kill(child, SIGKILL);
    while (reaps && waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
    count++;
  }
  if (directory != NULL) closedir(directory);
  return count;
}

void ring_process_tree_kill_children(void) {
  process_tree_kill_present(NULL, false);
}

void ring_process_tree_kill(const pid_t *spared) {
  while (process_tree_kill_present(spared, false) > 0) process_tree_kill_present(spared, true);
}
