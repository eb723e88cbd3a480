/* SPDX-License-Identifier: Apache-2.0
 *
 * PMIx servers of 1 to 5 ranks on 1 to 3 hosts, with real programs of PMIx and of Open MPI, which end well or badly.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "leaks.h"
#include "places.h"
#include "program.h"

typedef struct run {
  place place;
  const char *program, *what;
  const char *before; /* what the last rank's program does instead; NULL: the same */
  int wait_status;    /* of the last rank's program */
  ring_status status;
  const char *text; /* of the failure, which the last rank has */
} run;

/* ---- Programs ----------------------------------------------------------------------------- */

/* Adds the variables of the server to those of this process. `fd`: the number of the descriptor here. */
static void set_environment(const ring_pmi *pmi, int fd) {
  char number[16];
  for (const char *const *entry = ring_pmi_environment(pmi); *entry != NULL; entry++)
    putenv((char *)(uintptr_t)*entry);
  snprintf(number, sizeof number, "%d", fd);
  setenv("PMI_FD", number, 1);
}

static pid_t start(ring_pmi *pmi, const char *hosts, const char *program, const char *what) {
  int fd = dup(ring_pmi_fd(pmi)); /* which exec leaves open */
  pid_t child = fork();
  CHECK(child >= 0);
  if (child > 0) {
    close(fd);
    ring_pmi_started(pmi);
    return child;
  }
  set_environment(pmi, fd);
  setenv("HOSTS", hosts, 1);
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1); /* where a container forbids it */
  if (strchr(hosts, '1') != NULL) setenv("OMPI_MCA_btl", "tcp,self", 1); /* they share /dev/shm */
  alarm(60);
  execlp(program, program, what, (char *)NULL);
  _exit(127);
}

/* Waits for the program, unless the servers fail before: then kills it. Returns its wait status. */
static int await_program(ring_pmi *pmi, pid_t child) {
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (ring_pmi_test(pmi, NULL, NULL) != RING_OK) kill(child, SIGKILL);
    usleep(1000);
  }
  return status;
}

static void run_program(int rank, int size, void *shared) {
  run *r = shared;
  ring_comm *comm = open_at(rank, size, &r->place);
  ring_pmi *pmi = serve(comm);
  if (ring_pmi_pmix_problem(pmi) != NULL) fprintf(stderr, "%s\n", ring_pmi_pmix_problem(pmi));
  CHECK(ring_pmi_pmix_problem(pmi) == NULL);
  bool last = rank == size - 1;
  const char *what = last && r->before != NULL ? r->before : r->what;
  int status = await_program(pmi, start(pmi, r->place.nodes, r->program, what));
  if (r->status == RING_OK) {
    CHECK_INT(status, 0);
    close_pmi(pmi);
  } else {
    if (last) CHECK_INT(status, r->wait_status);
    if (last && ring_pmi_test(pmi, NULL, NULL) == RING_OK) ring_pmi_close(pmi);
    expect_failure(pmi, r->status, size - 1, r->text);
  }
  CHECK_INT(ring_barrier(comm), RING_OK); /* the user's communicator works on */
  close_rank(comm);
}

static void run_at(const char *nodes, run r) {
  r.place.nodes = nodes;
  RUN_RANKS((int)strlen(nodes), run_program, r);
}

/* ---- Runs that end well ------------------------------------------------------------------- */

static const char *const placements[] = {"0", "00", "0000", "01", "0001", "0110", "01201"};
#define EACH_PLACEMENT(at) for (size_t at = 0; at < sizeof placements / sizeof placements[0]; at++)

static void test_programs_of_pmix(void) {
  EACH_PLACEMENT(i) run_at(placements[i], (run){.program = PMIX_CLIENT, .what = "work"});
}

static void test_data_is_fetched_from_other_hosts(void) {
  EACH_PLACEMENT(i) run_at(placements[i], (run){.program = PMIX_CLIENT, .what = "fetch"});
}

static void test_programs_of_open_mpi(void) {
  EACH_PLACEMENT(i) run_at(placements[i], (run){.program = OPEN_MPI_PROGRAM, .what = "work"});
}

static void run_often(int rank, int size, void *shared) {
  const run *r = shared;
  ring_comm *comm = open_at(rank, size, &r->place);
  int before = 0;
  for (int i = 0; i < 5; i++) {
    ring_pmi *pmi = serve(comm);
    CHECK_INT(await_program(pmi, start(pmi, r->place.nodes, PMIX_CLIENT, "work")), 0);
    close_pmi(pmi);
    if (i == 1) before = count_descriptors();
    if (i > 1) CHECK_INT(count_descriptors(), before);
  }
  close_rank(comm);
}

static void test_servers_start_again(void) {
  RUN_RANKS(3, run_often, (run){.place.nodes = "001"});
}

/* ---- Failures ----------------------------------------------------------------------------- */

static void fail_everywhere(run r) {
  run_at("00", r);
  run_at("01", r);
  run_at("0110", r);
}

static void test_a_program_aborts(void) {
  const run aborts = {.program = PMIX_CLIENT,
                      .what = "abort",
                      .wait_status = 7 << 8,
                      .status = RING_ABORTED,
                      .text = "): the program called MPI_Abort with exit code 7"};
  run of_open_mpi = aborts;
  of_open_mpi.program = OPEN_MPI_PROGRAM;
  fail_everywhere(aborts);
  fail_everywhere(of_open_mpi);
}

static void test_a_program_is_killed(void) {
  static const char text[] =
      "): the program closed its connection of PMI before it called MPI_Finalize";
  fail_everywhere((run){.program = OPEN_MPI_PROGRAM,
                        .what = "kill",
                        .wait_status = SIGKILL,
                        .status = RING_ABORTED,
                        .text = text});
  fail_everywhere(
      (run){.program = PMIX_CLIENT, .what = "leave", .status = RING_ABORTED, .text = text});
}

/* It ends well while others wait: with them in a fence that has begun, or before it ever called PMIx_Init. */
static void test_a_program_does_not_come(void) {
  static const char text[] = "waits for it in MPI_Init or MPI_Finalize: all programs";
  run_at("01",
         (run){.program = PMIX_CLIENT, .what = "finalize", .status = RING_MISMATCH, .text = text});
  run_at("00", (run){.program = OPEN_MPI_PROGRAM,
                     .what = "work",
                     .before = "nothing",
                     .status = RING_MISMATCH,
                     .text = text});
  run_at("011", (run){.program = OPEN_MPI_PROGRAM,
                      .what = "work",
                      .before = "nothing",
                      .status = RING_MISMATCH,
                      .text = text});
}

/* A program is killed at some moment of its start. Its server may wait for it, and still ends. */
static void kill_while_it_connects(int rank, int size, void *shared) {
  const run *r = shared;
  ring_comm *comm = open_at(rank, size, &r->place);
  for (int i = 0; i < 30; i++) {
    ring_pmi *pmi = serve(comm);
    CHECK(ring_pmi_pmix_problem(pmi) == NULL);
    pid_t child = start(pmi, r->place.nodes, r->program, "work");
    if (rank == size - 1) {
      usleep(2000 * (useconds_t)i);
      kill(child, SIGKILL);
      CHECK_INT(waitpid(child, NULL, 0), child);
      ring_pmi_abort(pmi, "killed");
    } else {
      await_program(pmi, child);
    }
    expect_failure(pmi, RING_ABORTED, size - 1, "killed");
  }
  CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
  close_rank(comm);
}

static void test_a_program_is_killed_while_it_connects(void) {
  RUN_RANKS(1, kill_while_it_connects, (run){.place.nodes = "0", .program = PMIX_CLIENT});
  RUN_RANKS(2, kill_while_it_connects, (run){.place.nodes = "00", .program = OPEN_MPI_PROGRAM});
}

/* The PMIx server of this rank. */
static pid_t server_of(void) {
  char path[64];
  int server = 0;
  snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
  FILE *children = fopen(path, "r");
  CHECK(children != NULL);
  CHECK_INT(fscanf(children, "%d", &server), 1);
  fclose(children);
  return server;
}

static void kill_server(int rank, int size, void *shared) {
  const run *r = shared;
  ring_comm *comm = open_at(rank, size, &r->place);
  ring_pmi *pmi = serve(comm);
  pid_t server = rank == size - 1 ? server_of() : 0;
  pid_t child = start(pmi, r->place.nodes, OPEN_MPI_PROGRAM, "wait");
  if (server != 0) {
    ring_pmi_state state = RING_PMI_SILENT;
    while (state == RING_PMI_SILENT) CHECK_INT(ring_pmi_test(pmi, &state, NULL), RING_OK);
    kill(server, SIGKILL);
  }
  await_program(pmi, child);
  expect_failure(pmi, RING_SYSTEM, size - 1,
                 "): the PMIx server of its host was killed by signal 9 (Killed)");
  CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
  CHECK_INT(errno, ECHILD);
  close_rank(comm);
}

static void test_a_server_is_killed(void) {
  RUN_RANKS(1, kill_server, (run){.place.nodes = "0"});
  RUN_RANKS(2, kill_server, (run){.place.nodes = "01"});
}

/* PMIx writes to a program that was killed: the kernel sends SIGPIPE to the server, here the test. */
static void break_pipe(int rank, int size, void *shared) {
  const run *r = shared;
  ring_comm *comm = open_at(rank, size, &r->place);
  ring_pmi *pmi = serve(comm);
  kill(server_of(), SIGPIPE);
  CHECK_INT(await_program(pmi, start(pmi, r->place.nodes, r->program, r->what)), 0);
  close_pmi(pmi);
  close_rank(comm);
}

static void test_a_server_outlives_broken_pipes(void) {
  RUN_RANKS(2, break_pipe, (run){.place.nodes = "01", .program = PMIX_CLIENT, .what = "work"});
}

/* ---- Hosts without PMIx ------------------------------------------------------------------- */

typedef struct without {
  place place;
  const char *server, *problem;
} without;

static void serve_without(int rank, int size, void *shared) {
  const without *w = shared;
  ring_comm *comm = open_at(rank, size, &w->place);
  if (rank == size - 1) setenv("SPARKRING_PMIX_SERVER", w->server, 1);
  ring_pmi *pmi = serve(comm);
  CHECK_CONTAINS(ring_pmi_pmix_problem(pmi), w->problem);
  CHECK_CONTAINS(ring_pmi_pmix_problem(pmi), "rank 2 (127.0.0.2)");
  CHECK(ring_pmi_environment(pmi)[6] == NULL);
  CHECK_INT(waitpid(-1, NULL, WNOHANG), -1); /* nor has another host a server */
  request_init(pmi);
  request(pmi, "cmd=barrier_in", "cmd=barrier_out");
  request(pmi, "cmd=finalize", "cmd=finalize_ack");
  close_pmi(pmi);
  close_rank(comm);
}

static void test_one_host_has_no_pmix(void) {
  RUN_RANKS(3, serve_without,
            (without){{.nodes = "001"}, "/no/such/server", "/no/such/server: No such file"});
}

/* In place of the server, on the last rank's host. */
static void run_script(const char *text, const char *problem) {
  char path[] = "/tmp/sparkring-test-XXXXXX";
  int fd = mkstemp(path);
  CHECK(fd >= 0);
  CHECK_INT(fchmod(fd, S_IRWXU), 0);
  CHECK(dprintf(fd, "#!/bin/sh\n%s\n", text) > 0);
  close(fd);
  RUN_RANKS(3, serve_without, (without){{.nodes = "001"}, path, problem});
  CHECK_INT(unlink(path), 0);
}

static void test_a_server_does_not_start(void) {
  run_script("exit 3", "sparkring-pmix ended with exit code 3");
  run_script("kill -9 $$", "sparkring-pmix was killed by signal 9 (Killed)");
  run_script("head -c 64 /dev/zero >&0; sleep 60", "is of another version of sparkring");
  run_script("printf '\\023\\0\\0\\0xttttttttrrrrvvvvno' >&0; sleep 60", "rank 2 (127.0.0.2): no");
}

static void serve_only_pmi(int rank, int size, void *shared) {
  const run *r = shared;
  ring_pmi *pmi;
  ring_comm *comm = open_at(rank, size, &r->place);
  CHECK_INT(ring_pmi_serve(comm, 0, &pmi), RING_OK);
  CHECK_CONTAINS(ring_pmi_pmix_problem(pmi), "PMIx was switched off for this run");
  CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
  close_pmi(pmi);
  close_rank(comm);
}

static void test_pmix_is_switched_off(void) {
  RUN_RANKS(3, serve_only_pmi, (run){.place.nodes = "001"});
}

/* ---- Processes ---------------------------------------------------------------------------- */

/* A child of a process that serves PMIx serves it, too, and a child of the child. */
static void serve_forked(int depth) {
  ring_comm *alone = open_rank(0, 1);
  ring_pmi *pmi = serve(alone);
  CHECK(ring_pmi_pmix_problem(pmi) == NULL);
  CHECK_INT(await_program(pmi, start(pmi, "0", PMIX_CLIENT, "work")), 0);
  pid_t child = depth > 0 ? fork_for(60) : -1;
  if (child == 0) {
    ring_pmi_free(pmi);
    serve_forked(depth - 1);
    _exit(0);
  }
  int status;
  if (depth > 0) CHECK_INT(waitpid(child, &status, 0), child);
  if (depth > 0) CHECK_INT(status, 0);
  close_pmi(pmi); /* the child has not ended the server */
  close_rank(alone);
}

static void test_forked_children_serve_pmix(void) {
  serve_forked(2);
}

/* The thread that has started a server ends before the program begins. */
static void *serve_in_a_thread(void *comm) {
  return serve(comm);
}

static void test_the_starting_thread_ends(void) {
  pthread_t thread;
  void *pmi;
  ring_comm *alone = open_rank(0, 1);
  CHECK_INT(pthread_create(&thread, NULL, serve_in_a_thread, alone), 0);
  CHECK_INT(pthread_join(thread, &pmi), 0);
  CHECK_INT(await_program(pmi, start(pmi, "0", PMIX_CLIENT, "work")), 0);
  close_pmi(pmi);
  close_rank(alone);
}

/* A lead that is killed, whose child keeps the descriptors by a copy that the core does not know, leaves nothing. */
static void die_as_lead(const char *folder, int ready) {
  setenv("TMPDIR", folder, 1);
  ring_pmi *pmi = serve(open_rank(0, 1));
  int known[32], count = 0;
  for (int fd = 0; fd < 32; fd++)
    known[count++] = fcntl(fd, F_DUPFD, 100); /* of which the server's socket is one */
  if (fork_for(60) == 0) {
    pause();
    _exit(0);
  }
  pid_t server = server_of();
  CHECK(pmi != NULL && count > 0 && known[0] >= 0);
  CHECK_INT(write(ready, &server, sizeof server), sizeof server);
  raise(SIGKILL);
}

static void test_a_killed_lead_leaves_nothing(void) {
  char folder[] = "/tmp/sparkring-test-XXXXXX";
  int ready[2], status;
  pid_t server;
  CHECK(mkdtemp(folder) != NULL);
  CHECK_INT(pipe(ready), 0);
  pid_t lead = fork_for(60);
  if (lead == 0) die_as_lead(folder, ready[1]);
  CHECK_INT(read(ready[0], &server, sizeof server), sizeof server);
  CHECK_INT(waitpid(lead, &status, 0), lead);
  CHECK_INT(status, SIGKILL);
  while (rmdir(folder) != 0) usleep(1000); /* it is empty */
  close(ready[0]);
  close(ready[1]);
}

/* A server whose PMIx does not return outlives its lead by seconds: an alarm ends it, and the directory is removed. The
 * server becomes a child of the test. */
static void test_an_alarm_ends_a_stuck_server(void) {
  char folder[] = "/tmp/sparkring-test-XXXXXX";
  int ready[2], status;
  pid_t server;
  CHECK(mkdtemp(folder) != NULL);
  CHECK_INT(pipe(ready), 0);
  CHECK_INT(prctl(PR_SET_CHILD_SUBREAPER, 1UL), 0);
  pid_t lead = fork_for(60);
  if (lead == 0) {
    setenv("SPARKRING_PMIX_SERVER", PMIX_STUCK, 1);
    die_as_lead(folder, ready[1]);
  }
  CHECK_INT(read(ready[0], &server, sizeof server), sizeof server);
  CHECK_INT(waitpid(lead, &status, 0), lead);
  CHECK_INT(waitpid(server, &status, 0), server);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
  CHECK_INT(rmdir(folder), 0); /* it is empty */
  CHECK_INT(prctl(PR_SET_CHILD_SUBREAPER, 0UL), 0);
  close(ready[0]);
  close(ready[1]);
}

int main(void) {
  setenv("SPARKRING_PMIX_SERVER", SPARKRING_PMIX, 1);
  RUN(test_programs_of_pmix);
  RUN(test_data_is_fetched_from_other_hosts);
  RUN(test_programs_of_open_mpi);
  RUN(test_servers_start_again);
  RUN(test_a_program_aborts);
  RUN(test_a_program_is_killed);
  RUN(test_a_program_does_not_come);
  RUN(test_a_program_is_killed_while_it_connects);
  RUN(test_a_server_is_killed);
  RUN(test_a_server_outlives_broken_pipes);
  RUN(test_one_host_has_no_pmix);
  RUN(test_a_server_does_not_start);
  RUN(test_pmix_is_switched_off);
  RUN(test_forked_children_serve_pmix);
  RUN(test_the_starting_thread_ends);
  RUN(test_a_killed_lead_leaves_nothing);
  RUN(test_an_alarm_ends_a_stuck_server);
  return 0;
}
