/* SPDX-License-Identifier: Apache-2.0
 *
 * sparkring-launch, for the Python package:
 *   sparkring-launch run WORD...                       sparkring-run
 *   sparkring-launch guard RANK DIRECTORY COMMAND...   the guardian of a program, which its parent has started, the
 *                                                      rank with this process id; an empty directory is that of the rank
 * Descriptor 0 of a guardian is the connection to the rank. The rank sends one message first, with two descriptors: the
 * program's connection to its PMI server, and a file with the program's environment, "NAME=value" with a zero each. So
 * no command line shows the environment, and a child that another thread of the rank forks does not have the connection.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/command_line.h"
#include "launch/guardian.h"
#include "launch/process_tree.h"

enum { MAIN_CONTROL = 0, MAIN_FILES = 2 };

/* Receives the descriptors of the rank's message. False: the rank has ended. */
static bool main_receive(int files[MAIN_FILES]) {
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(MAIN_FILES * sizeof(int))];
  } control;
  char byte;
  struct iovec data = {&byte, 1};
  struct msghdr message = {.msg_iov = &data,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  if (recvmsg(MAIN_CONTROL, &message, 0) != 1) return false;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header == NULL || header->cmsg_len != CMSG_LEN(MAIN_FILES * sizeof(int))) return false;
  memcpy(files, CMSG_DATA(header), MAIN_FILES * sizeof(int));
  return true;
}

/* Replaces the environment of this process by what a file contains. */
static bool main_set_environment(int file) {
  struct stat status;
  if (fstat(file, &status) != 0) return false;
  size_t length = (size_t)status.st_size;
  char *bytes = malloc(length + 1);
  if (bytes == NULL || pread(file, bytes, length, 0) != (ssize_t)length) return false;
  bytes[length] = '\0';
  environ = NULL;
  for (char *entry = bytes; entry < bytes + length; entry += strlen(entry) + 1)
    if (putenv(entry) != 0) return false;
  return true;
}

/* While it waits for the message, a guardian ends with its rank. */
static int main_guard(char **words) {
  ring_guardian_job job = {.command = words + 2,
                           .directory = words[1][0] != '\0' ? words[1] : NULL,
                           .rank = (pid_t)atol(words[0]),
                           .control = MAIN_CONTROL,
                           .outputs = {1, 2}};
  int files[MAIN_FILES];
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &job.mask);
  ring_process_tree_watch_parent(SIGKILL);
  if (getppid() != job.rank || !main_receive(files) || !main_set_environment(files[1])) return 1;
  job.pmi = files[0];
  if (ring_guard(&job)) return 0;
  return raise(SIGKILL); /* for a rank that asks how its guardian has ended */
}

/* Opens closed descriptors of 0 to 2 on /dev/null, so that no file takes their numbers. */
static void main_open_standard_files(void) {
  struct stat status;
  for (int number = 0; number < 3; number++)
    if (fstat(number, &status) != 0) open("/dev/null", O_RDWR); /* uses the lowest free number */
}

int main(int count, char **words) {
  main_open_standard_files();
  if (count > 1 && strcmp(words[1], "run") == 0)
    return ring_command_line(count - 1, words + 1, "python train.py");
  if (count > 4 && strcmp(words[1], "guard") == 0) return main_guard(words + 2);
  fprintf(stderr, "sparkring-launch starts ranks for sparkring-run, and programs for mpi_run\n");
  return 2;
}
