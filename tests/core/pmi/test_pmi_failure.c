/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures that end PMI servers: programs that abort, are lost, send invalid requests or never enter a barrier;
 * owners that abort or are interrupted; ranks that die or send invalid control messages. All ranks fail alike, also
 * while their programs are silent.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "pmi/pmi_server.h"
#include "program.h"
#include "victims.h"

enum { AT_FAULT = 1, LONGEST = 4096 };

typedef void (*fault_function)(ring_pmi *pmi);

/* How rank AT_FAULT fails, and the error of all ranks. */
typedef struct fault {
  fault_function run;
  ring_status status;
  const char *text;
  bool in_barrier; /* the programs of other ranks; else they are silent */
} fault;

static void try_fault(ring_comm *comm, void *shared) {
  const fault *f = shared;
  ring_pmi *pmi = serve(comm);
  request_init(pmi);
  request(pmi, "cmd=barrier_in", "cmd=barrier_out");
  CHECK_INT(ring_barrier(comm), RING_OK); /* all programs have the answer */
  if (ring_comm_rank(comm) == AT_FAULT)
    f->run(pmi);
  else if (f->in_barrier)
    send_late(pmi, "cmd=barrier_in\n");
  expect_failure(pmi, f->status, AT_FAULT, f->text);
  CHECK_INT(ring_barrier(comm), RING_OK); /* the user's communicator works on */
}

static void check_fault(fault_function run, ring_status status, const char *text) {
  for (int size = 2; size <= 4; size++)
    for (int barrier = 0; barrier < 2; barrier++)
      run_comms(size, try_fault, &(fault){run, status, text, barrier == 1});
}

/* ---- Programs ----------------------------------------------------------------------------- */

static void call_abort(ring_pmi *pmi) {
  ring_pmi_state state = RING_PMI_ACTIVE;
  int exit_code;
  send_text(pmi, "cmd=abort exitcode=7\n");
  while (state == RING_PMI_ACTIVE) ring_pmi_test(pmi, &state, &exit_code);
  CHECK_INT(state, RING_PMI_ABORTED);
  CHECK_INT(exit_code, 7);
}

static void test_a_program_aborts(void) {
  check_fault(call_abort, RING_ABORTED,
              "rank 1 (127.0.0.1): the program called MPI_Abort with exit code 7");
}

static void be_lost(ring_pmi *pmi) {
  ring_pmi_started(pmi);
}

static void be_lost_in_barrier(ring_pmi *pmi) {
  send_text(pmi, "cmd=barrier_in\n");
  ring_pmi_started(pmi);
}

static void test_a_program_is_lost(void) {
  static const char text[] =
      "rank 1 (127.0.0.1): the program closed its connection of PMI before it called MPI_Finalize";
  check_fault(be_lost, RING_ABORTED, text);
  run_comms(3, try_fault, &(fault){be_lost_in_barrier, RING_ABORTED, text, true});
}

static void give_reason(ring_pmi *pmi) {
  be_lost(pmi);
  ring_pmi_abort(pmi, "the program was killed by SIGSEGV");
}

static void test_the_owner_gives_a_better_reason(void) {
  check_fault(give_reason, RING_ABORTED, "rank 1 (127.0.0.1): the program was killed by SIGSEGV");
}

static void give_none(ring_pmi *pmi) {
  ring_pmi_abort(pmi, NULL);
}

static void test_the_owner_aborts(void) {
  check_fault(give_none, RING_ABORTED, "rank 1 (127.0.0.1): no reason was given");
}

static void close_early(ring_pmi *pmi) {
  CHECK_INT(ring_pmi_close(pmi), RING_ABORTED);
}

static void test_the_owner_closes_early(void) {
  check_fault(close_early, RING_ABORTED, "before it called MPI_Finalize");
}

static void finalize_and_close(ring_pmi *pmi) {
  request(pmi, "cmd=finalize", "cmd=finalize_ack");
  CHECK_INT(ring_pmi_close(pmi), RING_MISMATCH);
}

static void test_a_program_does_not_come(void) {
  run_comms(3, try_fault,
            &(fault){finalize_and_close, RING_MISMATCH,
                     "rank 1 (127.0.0.1): its program ended, and the program of rank ", true});
}

/* ---- Invalid requests --------------------------------------------------------------------- */

static void send_long_line(ring_pmi *pmi) {
  char line[LONGEST + 2];
  memset(line, 'a', sizeof line);
  line[LONGEST + 1] = '\0';
  send_text(pmi, line);
}

static void send_http(ring_pmi *pmi) {
  send_text(pmi, "GET / HTTP/1.1\r\n");
}

static void send_unknown(ring_pmi *pmi) {
  send_text(pmi, "cmd=dance\n");
}

static void test_invalid_requests(void) {
  check_fault(send_long_line, RING_INVALID, "a line is longer than 4096 bytes");
  check_fault(send_http, RING_INVALID, "the line \"GET / HTTP/1.1?\" has bytes that are no text");
  check_fault(send_unknown, RING_INVALID,
              "rank 1 (127.0.0.1): the program sent an invalid PMI-1 request: the command dance is "
              "none of PMI-1");
}

/* ---- Invalid control messages ------------------------------------------------------------- */

typedef struct invalid {
  int from, to, tag;
  const char *bytes;
  size_t length;
} invalid;

/* A rank sends bytes in place of its server. */
static void try_invalid(ring_comm *comm, void *shared) {
  const invalid *i = shared;
  ring_pmi *pmi = serve(comm);
  ring_transfer *transfer = NULL;
  CHECK_INT(ring_barrier(comm), RING_OK); /* every rank has a server */
  if (ring_comm_rank(comm) == i->from)
    CHECK_INT(ring_messages_send_start(pmi->messages, i->bytes, i->length, RING_UINT8, i->to,
                                       i->tag, &transfer),
              RING_OK);
  expect_failure(pmi, RING_SYSTEM, i->from,
                 "its PMI server sent an invalid message: all ranks need the same sparkring");
  ring_transfer_free(transfer);
}

static void test_invalid_control_messages(void) {
  static const invalid ways[] = {
      {1, 0, RING_PMI_TO_HUB, "", 0},         {1, 0, RING_PMI_TO_HUB, "x", 1},
      {1, 0, RING_PMI_TO_HUB, "fa", 2},       {1, 0, RING_PMI_TO_HUB, "fa\0b", 4},
      {1, 0, RING_PMI_TO_HUB, "nhello", 6},   {1, 0, RING_PMI_TO_HUB, "n", 1},
      {0, 1, RING_PMI_FROM_HUB, "", 0},       {0, 1, RING_PMI_FROM_HUB, "x", 1},
      {0, 1, RING_PMI_FROM_HUB, "e", 1},      {0, 1, RING_PMI_FROM_HUB, "ncmd=a\n", 7},
      {0, 1, RING_PMI_FROM_HUB, "fa\0b\0", 5}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    invalid way = ways[i];
    run_comms(3, try_invalid, &way);
  }
}

/* ---- Ranks -------------------------------------------------------------------------------- */

typedef struct dying {
  failing base;
  int ready;
  bool in_barrier;
} dying;

static void try_death(int rank, int size, void *shared) {
  dying *d = shared;
  ring_comm *comm = open_rank(rank, size);
  ring_pmi *pmi = serve(comm);
  request_init(pmi);
  request(pmi, "cmd=barrier_in", "cmd=barrier_out");
  if (d->in_barrier && rank != d->base.victim) send_late(pmi, "cmd=barrier_in\n");
  ranks_barrier(&d->ready, size);
  if (rank == d->base.victim) raise(SIGKILL);
  expect_failure(pmi, RING_PEER_LOST, d->base.victim, "");
  ring_comm_free(comm);
}

static void test_a_rank_dies(void) {
  for (int victim = 0; victim < 3; victim++)
    for (int barrier = 0; barrier < 2; barrier++)
      RUN_WITH_VICTIM(3, try_death, (dying){.base.victim = victim, .in_barrier = barrier == 1});
}

static bool interrupted; /* whether the hook of this rank ends waits */

static int interrupt(void *unused) {
  (void)unused;
  return interrupted;
}

/* Rank AT_FAULT is interrupted while it waits for the others to close. */
static void try_interrupt(int rank, int size, void *shared) {
  (void)shared;
  ring_options options = rank_options(rank, size);
  options.interrupt = interrupt;
  ring_comm *comm = open_with(&options);
  ring_pmi *pmi = serve(comm);
  interrupted = rank == AT_FAULT;
  if (interrupted) CHECK_INT(ring_pmi_close(pmi), RING_ABORTED);
  expect_failure(pmi, RING_ABORTED, AT_FAULT,
                 "rank 1 was interrupted during the wait for the programs of the ranks");
  ring_comm_free(comm);
}

static void test_the_wait_is_interrupted(void) {
  run_ranks(3, try_interrupt, NULL);
}

/* A forked child frees what its parent has; the parent's server goes on. */
static void try_fork(ring_comm *comm, void *shared) {
  (void)shared;
  ring_pmi *pmi = serve(comm);
  request_init(pmi);
  pid_t child = fork_for(20);
  if (child == 0) {
    CHECK_INT(ring_pmi_close(pmi), RING_INVALID);
    ring_pmi_free(pmi);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_INT(status, 0);
  request(pmi, "cmd=barrier_in", "cmd=barrier_out");
  request(pmi, "cmd=finalize", "cmd=finalize_ack");
  close_pmi(pmi);
}

static void test_forked_children_only_free(void) {
  run_comms(2, try_fork, NULL);
}

/* A child that the owner forks for another purpose does not keep the connection of the program open. */
static void try_child_beside(ring_comm *comm, void *shared) {
  (void)shared;
  ring_pmi *pmi = serve(comm);
  request_init(pmi);
  pid_t child = fork_for(120);
  if (child == 0)
    for (;;) pause();
  if (ring_comm_rank(comm) == AT_FAULT) be_lost(pmi);
  expect_failure(pmi, RING_ABORTED, AT_FAULT, "the program closed its connection of PMI");
  kill(child, SIGKILL);
  CHECK(waitpid(child, NULL, 0) == child);
}

static void test_forked_children_do_not_hide_the_end(void) {
  run_comms(2, try_child_beside, NULL);
}

/* ---- Threads ------------------------------------------------------------------------------ */

typedef struct caller {
  ring_pmi *pmi;
  atomic_bool *ends;
} caller;

/* Calls every function that may be called beside close. */
static void *call_often(void *arg) {
  const caller *c = arg;
  while (!atomic_load(c->ends)) {
    const ring_error *error = ring_pmi_error(c->pmi);
    if (error->status != RING_OK) CHECK_CONTAINS(error->message, "rank 1 (127.0.0.1): enough");
    ring_pmi_fd(c->pmi);
    ring_pmi_started(c->pmi);
    ring_pmi_test(c->pmi, NULL, NULL);
  }
  return NULL;
}

static void *call_abort_late(void *arg) {
  const caller *c = arg;
  usleep(20000);
  ring_pmi_abort(c->pmi, "enough");
  return NULL;
}

static void try_threads(ring_comm *comm, void *shared) {
  (void)shared;
  atomic_bool ends = false;
  pthread_t often, late;
  caller c = {serve(comm), &ends};
  CHECK_INT(pthread_create(&often, NULL, call_often, &c), 0);
  bool aborts = ring_comm_rank(comm) == AT_FAULT;
  if (aborts) CHECK_INT(pthread_create(&late, NULL, call_abort_late, &c), 0);
  if (ring_comm_rank(comm) < 2)
    CHECK_INT(ring_pmi_close(c.pmi), RING_ABORTED);
  else
    while (ring_pmi_test(c.pmi, NULL, NULL) == RING_OK) usleep(1000);
  if (aborts) CHECK_INT(pthread_join(late, NULL), 0);
  usleep(20000);
  atomic_store(&ends, true);
  CHECK_INT(pthread_join(often, NULL), 0);
  expect_failure(c.pmi, RING_ABORTED, AT_FAULT, "rank 1 (127.0.0.1): enough");
}

/* Ranks 0 and 1 wait in close for the program of rank 2, until another thread of rank 1 aborts. */
static void test_any_thread_may_call(void) {
  for (int i = 0; i < 5; i++) run_comms(3, try_threads, NULL);
}

int main(void) {
  RUN(test_a_program_aborts);
  RUN(test_a_program_is_lost);
  RUN(test_the_owner_gives_a_better_reason);
  RUN(test_the_owner_aborts);
  RUN(test_the_owner_closes_early);
  RUN(test_a_program_does_not_come);
  RUN(test_invalid_requests);
  RUN(test_invalid_control_messages);
  RUN(test_a_rank_dies);
  RUN(test_the_wait_is_interrupted);
  RUN(test_forked_children_only_free);
  RUN(test_forked_children_do_not_hide_the_end);
  RUN(test_any_thread_may_call);
  return 0;
}
