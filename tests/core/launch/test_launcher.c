/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs of the launcher: exit codes, output, environment, signals, and what their ends leave behind: nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "launch/command_line.h"
#include "launch/launcher.h"
#include "sparkring.h"

enum { TEXT = 8192 };

typedef struct ended {
  int code;
  double seconds;
  char text[TEXT]; /* of both outputs */
} ended;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Reads until no process has the other end. */
static void read_all(int fd, char text[TEXT]) {
  size_t length = 0;
  for (ssize_t got; (got = read(fd, text + length, TEXT - 1 - length)) > 0;) length += (size_t)got;
  text[length] = '\0';
  close(fd);
}

static int exit_code_of(pid_t process) {
  int status;
  while (waitpid(process, &status, 0) < 0) CHECK(errno == EINTR);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* Runs a job, or a command line, in a process of its own, as sparkring-run does. */
static void run(ring_job *job, char **words, ended *ended) {
  int output[2];
  double begin = now();
  CHECK(pipe(output) == 0);
  pid_t process = fork();
  if (process == 0) {
    dup2(output[1], 1), dup2(output[1], 2);
    close(output[0]), close(output[1]);
    int count = 0;
    while (words != NULL && words[count] != NULL) count++;
    _exit(words ? ring_command_line(count, words, "this") : ring_launcher_run(job));
  }
  close(output[1]);
  read_all(output[0], ended->text);
  ended->code = exit_code_of(process);
  ended->seconds = now() - begin;
}

/* Runs a job of a script of sh. */
static void run_script(int size, const char *script, ring_job options, ended *ended) {
  char *command[] = {"sh", "-c", (char *)script, NULL};
  options.command = command;
  options.size = size;
  options.outputs[0] = 1;
  options.outputs[1] = 2;
  run(&options, NULL, ended);
}

/* ---- Exit codes and output ---------------------------------------------------------------- */

static void test_lines_and_codes(void) {
  ended ended;
  run_script(1, "printf 'one\\n\\ntwo'", (ring_job){0}, &ended);
  CHECK_INT(ended.code, 0);
  CHECK(strcmp(ended.text, "[0] one\n[0] \n[0] two\n") == 0);
  run_script(3, "[ $SPARKRING_RANK = 1 ] && exit 7; exec sleep 60", (ring_job){0}, &ended);
  CHECK_INT(ended.code, 7);
  CHECK_CONTAINS(ended.text, "sparkring-run: rank 1 failed with exit code 7; ending the others\n");
  run_script(1, "kill -SYS $$", (ring_job){0}, &ended);
  CHECK_INT(ended.code, 128 + SIGSYS);
  CHECK(strcmp(ended.text, "sparkring-run: rank 0 was killed by SIGSYS\n") == 0);
}

static void test_environment(void) {
  char *variables[] = {"GIVEN=a=b", "REMOVED", NULL};
  ended ended;
  setenv("REMOVED", "x", 1);
  setenv("SPARKRING_TOKEN", "of another job", 1);
  run_script(
      2,
      "test $SPARKRING_RANK = 1 && exit; echo $GIVEN ${REMOVED-none} ${SPARKRING_TOKEN-none} "
      "$SPARKRING_SIZE $SPARKRING_ADDRESSES $(wc -c <$SPARKRING_TOKEN_FILE) "
      "$(stat -L -c %a $SPARKRING_TOKEN_FILE)",
      (ring_job){.variables = variables}, &ended);
  CHECK(strcmp(ended.text, "[0] a=b none none 2 127.0.0.1,127.0.0.1 64 400\n") == 0);
}

/* ---- Ends --------------------------------------------------------------------------------- */

static void test_grace(void) {
  ended ended;
  run_script(2,
             "test $SPARKRING_RANK = 1 && sleep 0.2 && exit 3; trap '' TERM; "
             "while :; do sleep 0.05; done",
             (ring_job){.grace = 0.1}, &ended);
  CHECK_INT(ended.code, 3);
  CHECK(ended.seconds < 5);
}

static void test_linger(void) {
  ended ended;
  run_script(1, "(sleep 1.5; echo late) & echo early", (ring_job){.linger = 60}, &ended);
  CHECK_INT(ended.code, 0);
  CHECK(strcmp(ended.text, "[0] early\n[0] late\n") == 0);
  CHECK(ended.seconds < 30);
  run_script(1, "setsid sleep 60 & echo early", (ring_job){.linger = 0.1}, &ended);
  CHECK(strcmp(ended.text, "[0] early\n") == 0);
  CHECK(ended.seconds < 5);
}

/* The signal comes while the job runs, ends, or has ended. */
static void test_a_late_signal(void) {
  ended ended;
  for (int i = 0; i < 20; i++) {
    run_script(1,
               "trap '' TERM; read a b c launcher rest </proc/$PPID/stat; kill $launcher; exit 5",
               (ring_job){0}, &ended);
    CHECK_INT(ended.code, 5);
  }
}

static void test_earlier_children_stay(void) {
  char *command[] = {"true", NULL};
  ring_job job = {.command = command, .size = 1, .outputs = {1, 2}};
  pid_t launcher = fork();
  if (launcher == 0) {
    pid_t child = fork();
    if (child == 0)
      for (;;) pause();
    int code = ring_launcher_run(&job), stays = waitpid(child, NULL, WNOHANG) == 0;
    kill(child, SIGKILL);
    _exit(code == 0 && stays ? 0 : 1);
  }
  CHECK_INT(exit_code_of(launcher), 0);
}

/* Starts a job whose rank, its child and one in a session of its own have an end of the pipe that is returned. */
static int start_family(ring_launcher *launcher) {
  char text[TEXT];
  int output[2], held[2];
  CHECK(pipe(output) == 0 && pipe(held) == 0);
  char script[256], *command[] = {"sh", "-c", script, NULL};
  snprintf(script, sizeof script,
           "exec 7>/proc/%d/fd/%d; setsid sh -c 'trap \"\" TERM; sleep 60' & sleep 60 & echo "
           "ready; wait",
           (int)getpid(), held[1]);
  ring_job job = {.command = command, .size = 1, .outputs = {output[1], output[1]}};
  CHECK_INT(ring_launcher_start(&job, launcher), 0);
  close(output[1]);
  CHECK(read(output[0], text, sizeof text) > 0);
  close(output[0]), close(held[1]);
  return held[0];
}

static int await_code(const ring_launcher *launcher) {
  int code;
  while (!ring_launcher_ended(launcher, &code)) usleep(1000);
  close(launcher->lifeline);
  return code;
}

static void test_the_lifeline(void) {
  char text[TEXT];
  ring_launcher launcher;
  int held = start_family(&launcher);
  shutdown(launcher.lifeline, SHUT_WR);
  CHECK_INT(await_code(&launcher), 1);
  read_all(held, text);
}

static void test_a_signal_of_the_launcher(void) {
  char text[TEXT];
  ring_launcher launcher;
  int held = start_family(&launcher);
  kill(launcher.supervisor, SIGTERM);
  CHECK_INT(await_code(&launcher), 128 + SIGTERM);
  read_all(held, text);
}

/* A child of the launcher keeps the lifeline open. */
static void test_a_killed_launcher(void) {
  char text[TEXT];
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  pid_t process = fork();
  if (process == 0) {
    ring_launcher launcher;
    int held = start_family(&launcher);
    pid_t child = fork();
    if (child == 0)
      for (;;) pause();
    if (write(ends[1], (int[]){child, held}, 2 * sizeof(int)) > 0) pause();
    _exit(1);
  }
  int told[2];
  CHECK(read(ends[0], told, sizeof told) == sizeof told);
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)process, told[1]);
  int held = open(path, O_RDONLY);
  CHECK(held >= 0);
  kill(process, SIGKILL);
  CHECK_INT(exit_code_of(process), -SIGKILL);
  read_all(held, text);
  kill(told[0], SIGKILL);
  close(ends[0]), close(ends[1]);
}

/* ---- The command line --------------------------------------------------------------------- */

#define WORDS(...) ((char *[]){"sparkring-run", __VA_ARGS__, NULL})

static void check_refused(char **words, const char *error) {
  char expected[256];
  ended ended;
  run(NULL, words, &ended);
  CHECK_INT(ended.code, 2);
  CHECK(strncmp(ended.text, "usage: sparkring-run -n SIZE", 28) == 0);
  snprintf(expected, sizeof expected, "\nsparkring-run: error: %s\n", error);
  CHECK_CONTAINS(ended.text, expected);
}

static void test_words_that_are_not_valid(void) {
  check_refused(WORDS(NULL), "the following arguments are required: -n/--size");
  check_refused(WORDS("true"), "the following arguments are required: -n/--size");
  check_refused(WORDS("-n"), "argument -n: expected one argument");
  check_refused(WORDS("-n", "0", "true"), "argument -n/--size: '0' is not 1 or more");
  check_refused(WORDS("-n", "-1", "true"), "argument -n/--size: '-1' is not 1 or more");
  check_refused(WORDS("-n", "2x", "true"), "argument -n/--size: '2x' is not 1 or more");
  check_refused(WORDS("-n", "", "true"), "argument -n/--size: '' is not 1 or more");
  check_refused(WORDS("-n", "9999999999", "true"),
                "argument -n/--size: '9999999999' is not 1 or more");
  check_refused(WORDS("-n", "1", "--wrong", "true"), "unrecognized arguments: --wrong");
  check_refused(WORDS("-n", "1", "--timeout"), "argument --timeout: expected one argument");
  check_refused(WORDS("--size=2"), "the command is missing, as in: sparkring-run -n 4 this");
}

static void test_options(void) {
  char folder[512], expected[1024];
  ended ended;
  CHECK(getcwd(folder, sizeof folder) != NULL);
  run(NULL,
      WORDS("-n1", "--timeout=8", "--timeo", "9", "--ports", "1-2", "--encryption", "--timeline",
            "t", "--", "sh", "-c",
            "echo $SPARKRING_TIMEOUT $SPARKRING_PORTS $SPARKRING_ENCRYPTION $SPARKRING_TIMELINE $0",
            "-n"),
      &ended);
  snprintf(expected, sizeof expected, "[0] 9 1-2 1 %s/t -n\n", folder);
  CHECK(strcmp(ended.text, expected) == 0);
  CHECK_INT(ended.code, 0);
  run(NULL, WORDS("--version"), &ended);
  CHECK(strcmp(ended.text, "sparkring " RING_VERSION "\n") == 0);
  CHECK_INT(ended.code, 0);
  run(NULL, WORDS("-h"), &ended);
  CHECK_CONTAINS(ended.text, "128 + number for a signal");
  CHECK_INT(ended.code, 0);
}

static void test_commands_that_cannot_run(void) {
  ended ended;
  run(NULL, WORDS("-n", "2", "no-such-command"), &ended);
  CHECK_INT(ended.code, 127);
  CHECK(strcmp(ended.text,
               "sparkring-run: cannot run 'no-such-command': No such file or directory\n") == 0);
  run(NULL, WORDS("-n", "2", "/"), &ended);
  CHECK_INT(ended.code, 126);
  CHECK_CONTAINS(ended.text, "Permission denied");
}

int main(void) {
  RUN(test_lines_and_codes);
  RUN(test_environment);
  RUN(test_grace);
  RUN(test_linger);
  RUN(test_a_late_signal);
  RUN(test_earlier_children_stay);
  RUN(test_the_lifeline);
  RUN(test_a_signal_of_the_launcher);
  RUN(test_a_killed_launcher);
  RUN(test_words_that_are_not_valid);
  RUN(test_options);
  RUN(test_commands_that_cannot_run);
  return 0;
}
