/* SPDX-License-Identifier: Apache-2.0
 *
 * Rendezvous: every mode, every order of arrival, two jobs at once, and the errors when a rank is
 * missing or dies.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "held_ports.h"
#include "leaks.h"
#include "openings.h"
#include "ranks.h"

/* ---- Orders of arrival -------------------------------------------------------------------- */

static int note_waiting(void *arg) {
  *(volatile int *)arg = 1; /* the hook is only asked by ranks that wait */
  return 0;
}

/* Rank r begins only when the ranks before it in the order given wait inside open. */
static void arrive_in_order(int rank, int size, void *shared) {
  int *memory = shared, *waiting = memory + 64, first = memory[0];
  int place = (rank - first + size) % size;
  ring_options options = rank_options(rank, size);
  options.interrupt = note_waiting;
  options.interrupt_arg = &waiting[place];
  for (int before = 0; before < place; before++)
    while (!*(volatile int *)&waiting[before]) usleep(1000);
  open_check_close(&options);
}

static void test_any_order(void) {
  for (int first = 0; first < 4; first++) {
    RUN_RANKS(4, arrive_in_order, (int[1024]){[0] = first});
  }
}

/* ---- Two jobs ----------------------------------------------------------------------------- */

static void join_one_of_two(int rank, int size, void *shared) {
  const char *tokens[] = {"the secret of one job", "the secret of another"};
  ring_options options = rank_options(rank / 2, size / 2);
  (void)shared;
  options.token = tokens[rank % 2];
  options.token_length = strlen(tokens[rank % 2]);
  for (int i = 0; i < 5; i++) open_check_close(&options);
}

static void test_two_jobs_with_the_same_addresses(void) {
  run_ranks(8, join_one_of_two, NULL);
}

/* The same two jobs squeezed into few ports, so that each walks over the other's. What the other wants
 * concerns nobody. */
static void join_in_few_ports(int rank, int size, void *shared) {
  const uint16_t *ports = shared;
  const char *jobs[] = {"one", "other"};
  ring_options options = rank_options(rank / 2, size / 2);
  options.job = jobs[rank % 2];
  options.encryption = rank % 2 ? RING_ON : RING_OFF;
  options.port_first = ports[0];
  options.port_last = ports[1];
  open_check_close(&options);
}

static void test_two_jobs_in_few_ports(void) {
  held_ports held = hold_ports(8);
  uint16_t *ports = shared_alloc(64);
  ports[0] = held.first;
  ports[1] = held.last;
  free_ports(&held);
  run_ranks(6, join_in_few_ports, ports);
  shared_free(ports, 64);
}

/* ---- Who is missing ----------------------------------------------------------------------- */

static void miss_some(int rank, int size, void *shared) {
  (void)shared;
  ring_options options = rank_options(rank, size);
  options.timeout = rank == 0 ? 0.7 : 20;
  if (rank == 2 || rank == 3) return;
  if (rank == 0)
    expect_failure(
        &options, RING_TIMEOUT,
        " s; missing: rank 2 (127.0.0.1), rank 3 (127.0.0.1). Usual causes: fewer free slots than "
        "partitions");
  else
    expect_failure(&options, RING_TIMEOUT, "rank 0 reports: 3 of 5 ranks joined");
}

static void test_missing_ranks_are_named(void) {
  run_ranks(5, miss_some, NULL);
}

/* Ranks that time out before rank 0 does get an error that names the missing ranks, and are not among them. */
static void give_up_early(int rank, int size, void *shared) {
  (void)shared;
  ring_options options = rank_options(rank, size);
  if (rank == 3) return;
  if (rank != 0) options.timeout = 1.5;
  const char *text = rank == 0 ? "3 of 4 ranks joined" : "rank 0 reports: 3 of 4 ranks joined";
  CHECK_INT(expect_failure(&options, RING_TIMEOUT, text), 3);
}

static void test_different_deadlines(void) {
  run_ranks(4, give_up_early, NULL);
}

static void miss_rank_0(int rank, int size, void *shared) {
  (void)shared;
  ring_options options = rank_options(rank, size);
  options.timeout = 0.5;
  if (rank != 0) expect_failure(&options, RING_TIMEOUT, "did not find rank 0 on 127.0.0.1 within ");
}

static void test_rank_0_is_missing(void) {
  run_ranks(3, miss_rank_0, NULL);
}

static int stop_at_once(void *arg) {
  (void)arg;
  return 1;
}

static void test_an_interrupt(void) {
  for (int rank = 0; rank < 2; rank++) {
    ring_options options = rank_options(rank, 2);
    options.interrupt = stop_at_once;
    CHECK_INT(expect_failure(&options, RING_ABORTED, "was interrupted during open()"), rank);
  }
}

static void test_a_host_that_does_not_exist(void) {
  ring_options options = rank_options(1, 2);
  options.addresses = (const char *const[]){"no-such-host.invalid", "127.0.0.1"};
  expect_failure(&options, RING_PEER_LOST,
                 "cannot resolve the host no-such-host.invalid of rank 0");
}

/* ---- Other modes of rendezvous ------------------------------------------------------------ */

static void open_at_root(int rank, int size, void *shared) {
  (void)shared;
  ring_options options = rank_options(rank, size);
  options.address_count = 0;
  options.addresses = NULL;
  options.root_address = "127.0.0.1:7077";
  open_check_close(&options);
}

static void test_only_the_root_is_known(void) {
  run_ranks(4, open_at_root, NULL);
}

static void open_without_token(int rank, int size, void *shared) {
  (void)shared;
  char job[32];
  ring_options options = rank_options(rank, size);
  snprintf(job, sizeof job, "%d", (int)getppid());
  options.token = NULL;
  options.token_length = 0;
  options.job = job;
  ring_comm *comm = open_with(&options);
  CHECK_INT(ring_comm_authenticated(comm), 0);
  close_rank(comm);
}

static void test_without_a_token(void) {
  run_ranks(3, open_without_token, NULL);
}

static void open_from_environment(int rank, int size, void *shared) {
  (void)shared;
  char number[16], token[64];
  snprintf(number, sizeof number, "%d", rank);
  setenv("SPARKRING_RANK", number, 1);
  snprintf(number, sizeof number, "%d", size);
  setenv("SPARKRING_SIZE", number, 1);
  setenv("SPARKRING_ADDRESSES", "127.0.0.1,127.0.0.1,127.0.0.1", 1);
  snprintf(token, sizeof token, "environment of process %d", (int)getppid());
  setenv("SPARKRING_TOKEN", token, 1);
  ring_options options = RING_OPTIONS_INIT;
  open_check_close(&options);
}

static void test_from_the_environment(void) {
  run_ranks(3, open_from_environment, NULL);
}

/* ---- A port that is unknown -------------------------------------------------------------- */

static bool nameless;

int __real_getsockname(int fd, struct sockaddr *address, socklen_t *length);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *length);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *length) {
  if (!nameless) return __real_getsockname(fd, address, length);
  errno = ENOBUFS;
  return -1;
}

/* Rank *shared cannot find out its port, and reports that to the others. */
static void lack_a_port(int rank, int size, void *shared) {
  const int *lacks = shared;
  ring_options options = rank_options(rank, size);
  char text[96];
  snprintf(text, sizeof text, "rank %d cannot find out on which port it listens", *lacks);
  nameless = rank == *lacks;
  options.timeout = 20;
  CHECK_INT(expect_failure(&options, RING_SYSTEM, text), *lacks);
}

static int pass_nothing(void *arg, const char *mine, ring_exchange_put_fn put, void *sink) {
  (void)arg, (void)mine, (void)put, (void)sink;
  CHECK(false); /* it must not come to that */
  return 1;
}

static void lack_a_port_to_exchange(int rank, int size, void *shared) {
  ring_options options = rank_options(rank, size);
  (void)shared;
  nameless = true;
  options.exchange = pass_nothing;
  expect_failure(&options, RING_SYSTEM, "cannot find out on which port it listens");
}

static void test_a_port_that_is_unknown(void) {
  int *lacks = shared_alloc(sizeof *lacks);
  run_ranks(3, lack_a_port, lacks);
  *lacks = 1;
  run_ranks(3, lack_a_port, lacks);
  run_ranks(2, lack_a_port_to_exchange, NULL);
  shared_free(lacks, sizeof *lacks);
}

/* ---- A rank that had come ----------------------------------------------------------------- */

/* Once it has joined and waits for others; rank 0, once they have. */
static void die_when_joined(void *unused, const char *message) {
  (void)unused;
  if (strstr(message, "it has joined rank 0") != NULL ||
      strstr(message, "3 of 4 ranks have joined") != NULL)
    kill(getpid(), SIGKILL);
}

/* Runs it in a process that dies of it. */
static void die_once_joined(ring_options *options) {
  int status;
  pid_t process = fork();
  CHECK(process >= 0);
  options->log = die_when_joined;
  options->warn_after = 0.4; /* the others come meanwhile */
  if (process == 0) expect_failure(options, RING_OK, "");
  CHECK_INT(waitpid(process, &status, 0), process);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Rank 3 never comes, and *victim dies when it has joined. */
static void lose_one_that_had_come(int rank, int size, void *victim) {
  ring_options options = rank_options(rank, size);
  const char *text = "rank 1 (127.0.0.1) was lost in open(): it had joined, and went away before";
  if (*(int *)victim == 0) text = "rank 0 (127.0.0.1) was lost in open(): ";
  if (rank == 3) return;
  if (rank == *(int *)victim)
    die_once_joined(&options);
  else
    CHECK_INT(expect_failure(&options, RING_PEER_LOST, text), *(int *)victim);
}

static void test_a_rank_that_had_come(void) {
  int *victim = shared_alloc(sizeof *victim);
  for (*victim = 0; *victim < 2; ++*victim) run_ranks(4, lose_one_that_had_come, victim);
  shared_free(victim, sizeof *victim);
}

/* ---- Leaks -------------------------------------------------------------------------------- */

static void open_often(int rank, int size, void *shared) {
  (void)shared;
  ring_options options = rank_options(rank, size);
  open_check_close(&options);
  int before = count_descriptors();
  for (int i = 0; i < 20; i++) open_check_close(&options);
  options.timeout = 0.05;
  options.port_first = options.port_last = 1; /* nobody is there */
  if (rank > 0) expect_failure(&options, RING_TIMEOUT, "did not find rank 0");
  CHECK_INT(count_descriptors(), before);
}

static void test_no_descriptor_is_left(void) {
  run_ranks(3, open_often, NULL);
}

int main(void) {
  RUN(test_any_order);
  RUN(test_two_jobs_with_the_same_addresses);
  RUN(test_two_jobs_in_few_ports);
  RUN(test_missing_ranks_are_named);
  RUN(test_different_deadlines);
  RUN(test_rank_0_is_missing);
  RUN(test_an_interrupt);
  RUN(test_a_host_that_does_not_exist);
  RUN(test_only_the_root_is_known);
  RUN(test_without_a_token);
  RUN(test_from_the_environment);
  RUN(test_a_port_that_is_unknown);
  RUN(test_a_rank_that_had_come);
  RUN(test_no_descriptor_is_left);
  return 0;
}
