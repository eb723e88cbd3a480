/* SPDX-License-Identifier: Apache-2.0
 *
 * The guardian of a program: what it tells the rank, and that nothing of the program is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "launch/guardian.h"

typedef struct guarded {
  pid_t guardian;
  int control, output;
} guarded;

/* Starts a guardian of a script of sh, as a rank does. */
static guarded start(const char *script, const char *directory, char *const *variables) {
  char *command[] = {"sh", "-c", (char *)script, NULL};
  int control[2], output[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, control) == 0 && pipe(output) == 0);
  ring_guardian_job job = {.command = script ? command : (char *[]){"/no/such/program", NULL},
                           .variables = variables,
                           .directory = directory,
                           .rank = getpid(),
                           .control = control[1],
                           .outputs = {output[1], output[1]},
                           .pmi = open("/dev/null", O_RDONLY)};
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &job.mask);
  pid_t guardian = fork();
  if (guardian == 0) _exit(ring_guard(&job) ? 0 : 1);
  sigprocmask(SIG_SETMASK, &job.mask, NULL);
  close(control[1]), close(output[1]), close(job.pmi);
  return (guarded){guardian, control[0], output[0]};
}

static int next(const guarded *it, int *value) {
  ring_guardian_event event;
  ssize_t got = read(it->control, &event, sizeof event);
  if (got != sizeof event) return -1;
  *value = event.value;
  return (int)event.kind;
}

/* Reads all output, which ends when no process has it any more, and reaps the guardian. Returns its wait status. */
static int finish(const guarded *it, char text[1024]) {
  size_t length = 0;
  int status;
  for (ssize_t got; (got = read(it->output, text + length, 1023 - length)) > 0;)
    length += (size_t)got;
  text[length] = '\0';
  CHECK_INT(waitpid(it->guardian, &status, 0), it->guardian);
  close(it->control), close(it->output);
  return status;
}

static void test_a_program_ends(void) {
  char text[1024], *variables[] = {"GIVEN=x y", "HOME", NULL};
  int value, status;
  guarded it = start("setsid sleep 60 & echo $GIVEN ${HOME-none} $PWD $PMI_FD; "
                     "test -e /proc/$$/fd/3 && test ! -e /proc/$$/fd/4 && cat && exit 3",
                     "/usr", variables);
  CHECK_INT(next(&it, &value), RING_GUARDIAN_STARTED);
  CHECK(value > 1);
  CHECK_INT(next(&it, &status), RING_GUARDIAN_ENDED);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
  CHECK_INT(finish(&it, text), 0);
  CHECK(strcmp(text, "x y none /usr 3\n") == 0);
}

static void test_programs_that_cannot_start(void) {
  char text[1024];
  int value;
  guarded it = start("true", "/no/such/directory", NULL);
  CHECK_INT(next(&it, &value), RING_GUARDIAN_NO_DIRECTORY);
  CHECK_INT(value, ENOENT);
  CHECK_INT(finish(&it, text), 0);
  it = start(NULL, NULL, NULL);
  CHECK_INT(next(&it, &value), RING_GUARDIAN_STARTED);
  CHECK_INT(next(&it, &value), RING_GUARDIAN_FAILED);
  CHECK_INT(value, ENOENT);
  CHECK_INT(finish(&it, text), 0);
}

#define FAMILY "trap '' TERM INT; setsid sleep 60 & sleep 60 & echo $PPID; wait"

/* Returns the process id of the inner process. */
static pid_t await_ready(const guarded *it) {
  char text[16] = "";
  int value;
  CHECK_INT(next(it, &value), RING_GUARDIAN_STARTED);
  CHECK(read(it->output, text, sizeof text - 1) > 0);
  return (pid_t)atol(text);
}

static void test_the_rank_ends_the_program(void) {
  char text[1024];
  guarded it = start(FAMILY, NULL, NULL);
  await_ready(&it);
  kill(it.guardian, SIGTERM); /* which is for the rank to decide */
  shutdown(it.control, SHUT_RDWR);
  CHECK_INT(finish(&it, text), 0);
}

static void test_the_guardian_is_killed(void) {
  char text[1024];
  int value;
  guarded it = start(FAMILY, NULL, NULL);
  kill(await_ready(&it), SIGKILL);
  CHECK_INT(next(&it, &value), -1);
  CHECK_INT(WEXITSTATUS(finish(&it, text)), 1);
  it = start(FAMILY, NULL, NULL);
  await_ready(&it);
  kill(it.guardian, SIGKILL);
  CHECK_INT(next(&it, &value), -1);
  CHECK_INT(WTERMSIG(finish(&it, text)), SIGKILL);
}

/* Another process keeps the connection open. */
static void test_the_rank_is_killed(void) {
  int pipe_ends[2], pid[2];
  char byte;
  CHECK(pipe(pipe_ends) == 0);
  pid_t rank = fork();
  if (rank == 0) {
    guarded it = start(FAMILY, NULL, NULL);
    await_ready(&it);
    pid_t child = fork();
    if (child == 0) close(pipe_ends[1]), close(it.output);
    if (child == 0)
      for (;;) pause();
    if (write(pipe_ends[1], (int[]){child, it.output}, sizeof pid) > 0) pause();
    _exit(1);
  }
  close(pipe_ends[1]);
  CHECK(read(pipe_ends[0], pid, sizeof pid) == sizeof pid);
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)rank, pid[1]);
  int output = open(path, O_RDONLY);
  CHECK(output >= 0);
  kill(rank, SIGKILL);
  CHECK_INT(waitpid(rank, NULL, 0), rank);
  CHECK_INT(read(output, &byte, 1), 0);
  kill(pid[0], SIGKILL);
  close(output), close(pipe_ends[0]);
}

int main(void) {
  RUN(test_a_program_ends);
  RUN(test_programs_that_cannot_start);
  RUN(test_the_rank_ends_the_program);
  RUN(test_the_guardian_is_killed);
  RUN(test_the_rank_is_killed);
  return 0;
}
