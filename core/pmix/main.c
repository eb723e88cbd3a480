/* SPDX-License-Identifier: Apache-2.0
 *
 * sparkring-pmix: serves PMIx to the programs of one host, for the lead that has started it. Descriptor 0 is the
 * connection to the lead. The argument is the lead's pid. `sparkring-pmix remove DIRECTORY` is what a server that PMIx
 * does not let end becomes: the lead may be dead, and the directory would stay.
 */
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include "pmi/pmix_directory.h"
#include "pmix/connection.h"
#include "pmix/exchange.h"
#include "pmix/request.h"
#include "pmix/server.h"

enum { MAIN_LAST_DESCRIPTOR = 2, MAIN_END_S = 3 };

#ifndef __linux__
extern char **environ; /* which no header has */
#endif

static pid_t main_lead;
/* A command, of which the program and the directory are set. */
static char *main_removal[] = {NULL, "remove", NULL, NULL};

/* PMIx does not return. This handler may not remove files, since a thread of PMIx may hold any lock. */
static void main_on_alarm(int number) {
  (void)number;
  execv(main_removal[0], main_removal);
  _exit(1);
}

static void main_expect_alarm(char *program, char *directory) {
  struct sigaction action = {.sa_handler = main_on_alarm, .sa_flags = SA_NODEFER};
  main_removal[0] = program;
  main_removal[2] = directory;
  sigaction(SIGALRM, &action, NULL);
}

/* Ends by the alarm that has made this process remove the directory. */
static int main_remove(const char *directory) {
  const char *name = strrchr(directory, '/');
  if (name == NULL || strncmp(name, "/sparkring-pmix-", 16) != 0) return 2;
  alarm(MAIN_END_S);
  ring_pmix_directory_remove(directory);
  raise(SIGALRM);
  return 1;
}

/* The thread of the lead that has started this process has ended: maybe with the lead. Ends the connection, as the
 * lead's end does, which a child of the lead may keep open. The alarm ends this process if PMIx never returns. */
static void main_on_death(int number) {
  (void)number;
  if (getppid() == main_lead) return;
  shutdown(0, SHUT_RD);
  alarm(MAIN_END_S);
}

static void main_watch_lead(void) {
  struct sigaction action = {.sa_handler = main_on_death, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0);
#endif
  if (getppid() != main_lead) exit(0);
}

/* The lead may have descriptors that do not close on exec. */
static void main_close_descriptors(void) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, MAIN_LAST_DESCRIPTOR + 1, UINT_MAX, 0) == 0) return;
#endif
  for (long fd = sysconf(_SC_OPEN_MAX) - 1; fd > MAIN_LAST_DESCRIPTOR; fd--) close((int)fd);
}

/* The lead may be a program of PMIx itself. Data lies in memory, and not in files that programs map. */
static void main_set_variables(void) {
  char name[128];
  for (char **entry = environ; *entry != NULL;) {
    size_t length = strcspn(*entry, "=");
    bool foreign = strncmp(*entry, "PMIX_", 5) == 0 && strncmp(*entry, "PMIX_MCA_", 9) != 0;
    if (!foreign || length >= sizeof name) {
      entry++;
      continue;
    }
    snprintf(name, sizeof name, "%.*s", (int)length, *entry);
    unsetenv(name); /* the next entry takes its place */
  }
  setenv("PMIX_MCA_gds", "hash", 0);
}

static void main_serve(const ring_pmix_job *job) {
  ring_pmix_message message;
  char kind;
  while (ring_pmix_connection_receive(&kind, &message)) {
    if (kind == RING_PMIX_ANSWER)
      ring_pmix_request_answer(&message);
    else if (kind == RING_PMIX_MODEX && message.rank >= 0 && message.rank < job->size)
      ring_pmix_exchange_fetch(&message);
    else
      ring_pmix_connection_fail("the lead sent an invalid message");
  }
}

/* The job, whose strings are copied. */
static ring_pmix_job main_receive_job(void) {
  ring_pmix_message message;
  ring_pmix_job job;
  char kind;
  if (!ring_pmix_connection_receive(&kind, &message)) exit(0);
  bool good = kind == RING_PMIX_JOB && message.value == RING_PMIX_VERSION;
  char *bytes = ring_pmix_connection_allocate(message.length + 1);
  if (message.length > 0) memcpy(bytes, message.bytes, message.length);
  if (!good || !ring_pmix_job_read(bytes, message.length, &job))
    ring_pmix_connection_fail("the lead is of another version of sparkring");
  return job;
}

int main(int argc, char **argv) {
  struct stat lead;
  if (argc == 3 && strcmp(argv[1], main_removal[1]) == 0) return main_remove(argv[2]);
  if (argc != 2 || fstat(0, &lead) != 0 || !S_ISSOCK(lead.st_mode)) {
    fprintf(stderr, "sparkring-pmix serves PMIx for sparkring's mpi_run, which starts it\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN); /* PMIx writes to programs, which may be killed at any time */
  main_lead = (pid_t)strtol(argv[1], NULL, 10);
  main_watch_lead();
  main_close_descriptors();
  main_set_variables();
  const ring_pmix_job job = main_receive_job();
  main_expect_alarm(argv[0], (char *)(uintptr_t)job.directory);
  ring_pmix_server_start(&job);
  main_serve(&job);
  alarm(MAIN_END_S); /* whatever PMIx does */
  ring_pmix_server_end(&job);
  ring_pmix_directory_remove(job.directory);
  _exit(0); /* PMIx may wait in its own end */
}
