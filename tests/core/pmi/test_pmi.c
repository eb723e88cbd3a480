/* SPDX-License-Identifier: Apache-2.0
 *
 * PMI servers of 1 to 4 ranks, each with a program that does what an MPI library does, and the ends of runs
 * that go well.
 */
#include "leaks.h"
#include "program.h"

/* ---- Keys, fences, names ------------------------------------------------------------------ */

static void check_environment(const ring_comm *comm, ring_pmi *pmi) {
  char expected[64];
  const char *const *environment = ring_pmi_environment(pmi);
  snprintf(expected, sizeof expected, "PMI_FD=%d", ring_pmi_fd(pmi));
  CHECK(strcmp(environment[0], expected) == 0);
  snprintf(expected, sizeof expected, "PMI_RANK=%d", ring_comm_rank(comm));
  CHECK(strcmp(environment[1], expected) == 0);
  snprintf(expected, sizeof expected, "PMI_SIZE=%d", ring_comm_size(comm));
  CHECK(strcmp(environment[2], expected) == 0);
  snprintf(expected, sizeof expected, "MPI_LOCALRANKID=%d", ring_comm_local_rank(comm));
  CHECK(strcmp(environment[3], expected) == 0);
  snprintf(expected, sizeof expected, "MPI_LOCALNRANKS=%d", ring_comm_local_size(comm));
  CHECK(strcmp(environment[4], expected) == 0);
  CHECK(strcmp(environment[5], "SPARKRING_PROGRAM=1") == 0);
  CHECK(environment[6] == NULL);
}

static void put_and_fence(ring_pmi *pmi, const char *space, int rank, int round) {
  char line[512];
  snprintf(line, sizeof line, "cmd=put kvsname=%s key=card-%d-%d value=tcp host#%d, with spaces",
           space, rank, round, rank);
  request(pmi, line, "cmd=put_result rc=0 msg=success");
  request(pmi, "cmd=barrier_in", "cmd=barrier_out");
}

static void get_all(ring_pmi *pmi, const char *space, int size, int round) {
  char line[512], expected[128];
  for (int rank = 0; rank < size; rank++) {
    snprintf(line, sizeof line, "cmd=get kvsname=%s key=card-%d-%d", space, rank, round);
    snprintf(expected, sizeof expected,
             "cmd=get_result rc=0 msg=success value=tcp host#%d, with spaces", rank);
    request(pmi, line, expected);
  }
  snprintf(line, sizeof line, "cmd=get kvsname=%s key=card-0-%d", space, round + 1);
  request(pmi, line, "cmd=get_result rc=-1 msg=key_not_found");
}

static void check_mapping(ring_pmi *pmi, const char *space, int size) {
  char line[512], expected[64];
  snprintf(line, sizeof line, "cmd=get kvsname=%s key=PMI_process_mapping", space);
  snprintf(expected, sizeof expected, "value=(vector,(0,1,%d))", size);
  request(pmi, line, expected);
}

/* Rank 0 publishes; others find the name once a fence has passed, or any other order of their own. */
static void use_names(ring_pmi *pmi, int rank) {
  if (rank == 0) request(pmi, "cmd=publish_name service=ocean port=tag#0$1.2.3.4$ a", "rc=0");
  if (rank == 0)
    request(pmi, "cmd=publish_name service=ocean port=other", "msg=service_already_published");
  request(pmi, "cmd=barrier_in", "cmd=barrier_out");
  request(pmi, "cmd=lookup_name service=ocean", "rc=0 port=tag#0$1.2.3.4$ a");
  request(pmi, "cmd=lookup_name service=sea", "rc=-1 msg=service_not_found");
  request(pmi, "cmd=barrier_in", "cmd=barrier_out");
  if (rank == 0) request(pmi, "cmd=unpublish_name service=ocean", "rc=0");
  request(pmi, "cmd=barrier_in", "cmd=barrier_out");
  request(pmi, "cmd=lookup_name service=ocean", "rc=-1");
}

/* Pairs of a fence that are longer than a short message. */
static void put_many(ring_pmi *pmi, const char *space, int rank, int size) {
  char line[1600], value[1001];
  memset(value, 'v', sizeof value - 1);
  value[sizeof value - 1] = '\0';
  for (int i = 0; i < 80; i++) {
    snprintf(line, sizeof line, "cmd=put kvsname=%s key=long-%d-%d value=%s%d", space, rank, i,
             value, rank);
    request(pmi, line, "cmd=put_result rc=0");
  }
  request(pmi, "cmd=barrier_in", "cmd=barrier_out");
  for (int other = 0; other < size; other++) {
    snprintf(line, sizeof line, "cmd=get kvsname=%s key=long-%d-79", space, other);
    snprintf(line + 512, 1088, "cmd=get_result rc=0 msg=success value=%s%d", value, other);
    request(pmi, line, line + 512);
  }
}

static void refuse_spawn(ring_pmi *pmi) {
  send_text(pmi, "mcmd=spawn\nnprocs=2\nexecname=./other\ntotspawns=2\nspawnssofar=1\nendcmd\n");
  request(pmi, "mcmd=spawn\nnprocs=2\nexecname=./a b=c\ntotspawns=2\nspawnssofar=2\nendcmd",
          "cmd=spawn_result rc=-1");
}

static void run_program(ring_comm *comm, void *shared) {
  (void)shared;
  char space[257], text[64];
  ring_pmi_state state;
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  ring_pmi *pmi = serve(comm);
  check_environment(comm, pmi);
  request_init(pmi);
  request(pmi, "cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024");
  request(pmi, "cmd=get_appnum", "cmd=appnum appnum=0");
  snprintf(text, sizeof text, "cmd=universe_size size=%d", size);
  request(pmi, "cmd=get_universe_size", text);
  request_space(pmi, space);
  check_mapping(pmi, space, size);
  CHECK_INT(ring_pmi_test(pmi, &state, NULL), RING_OK);
  CHECK_INT(state, RING_PMI_ACTIVE);
  for (int round = 0; round < 20; round++) {
    put_and_fence(pmi, space, rank, round);
    get_all(pmi, space, size, round);
  }
  use_names(pmi, rank);
  refuse_spawn(pmi);
  put_many(pmi, space, rank, size);
  request(pmi, "cmd=barrier_in", "cmd=barrier_out");
  request(pmi, "cmd=finalize", "cmd=finalize_ack");
  CHECK_INT(ring_pmi_test(pmi, &state, NULL), RING_OK);
  CHECK_INT(state, RING_PMI_FINALIZED);
  close_pmi(pmi);
  CHECK_INT(ring_barrier(comm), RING_OK);
}

static void test_programs_find_each_other(void) {
  for (int size = 1; size <= 4; size++) run_comms(size, run_program, NULL);
}

/* ---- Ends --------------------------------------------------------------------------------- */

/* Rank 0's program ends while those of other ranks are at work, and the communicator works beside. */
static void try_early_end(ring_comm *comm, void *shared) {
  int *arrived = shared, rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  ring_pmi *pmi = serve(comm);
  request_init(pmi);
  request(pmi, "cmd=barrier_in", "cmd=barrier_out");
  CHECK_INT(ring_barrier(comm), RING_OK);
  if (rank == 0) request(pmi, "cmd=finalize", "cmd=finalize_ack");
  ranks_barrier(arrived, size);
  if (rank > 0) usleep(300000);
  if (rank > 0) request(pmi, "cmd=get_appnum", "appnum=0");
  if (rank > 0) request(pmi, "cmd=finalize", "cmd=finalize_ack");
  close_pmi(pmi);
}

static void test_programs_end_at_any_time(void) {
  RUN_COMMS(3, try_early_end, (int){0});
}

/* The lines of finalize and the end of the connection come together, after close has been called. */
static void try_late_end(ring_comm *comm, void *shared) {
  (void)shared;
  ring_pmi *pmi = serve(comm);
  request_init(pmi);
  send_text(pmi, "cmd=finalize\n");
  close_pmi(pmi);
}

static void test_close_reads_what_was_sent(void) {
  for (int i = 0; i < 10; i++) run_comms(2, try_late_end, NULL);
}

static void try_no_mpi(ring_comm *comm, void *shared) {
  (void)shared;
  ring_pmi_state state;
  ring_pmi *pmi = serve(comm);
  ring_pmi_started(pmi);
  CHECK_INT(ring_pmi_fd(pmi), -1);
  CHECK_INT(ring_pmi_close(pmi), RING_OK);
  CHECK_INT(ring_pmi_close(pmi), RING_OK);
  CHECK_INT(ring_pmi_test(pmi, &state, NULL), RING_OK);
  CHECK_INT(state, RING_PMI_SILENT);
  ring_pmi_free(pmi);
}

static void test_programs_without_mpi(void) {
  run_comms(3, try_no_mpi, NULL);
}

static void try_leaks(ring_comm *comm, void *shared) {
  (void)shared;
  ring_pmi *first = serve(comm);
  close_pmi(first);
  int before = count_descriptors();
  for (int i = 0; i < 5; i++) {
    ring_pmi *pmi = serve(comm);
    request_init(pmi);
    request(pmi, "cmd=finalize", "cmd=finalize_ack");
    close_pmi(pmi);
  }
  CHECK_INT(count_descriptors(), before);
}

static void test_no_descriptor_is_left(void) {
  run_comms(2, try_leaks, NULL);
}

static void test_bad_arguments(void) {
  ring_pmi *pmi;
  CHECK_INT(ring_pmi_serve(NULL, 0, &pmi), RING_INVALID);
  CHECK_INT(ring_pmi_test(NULL, NULL, NULL), RING_INVALID);
  CHECK_INT(ring_pmi_close(NULL), RING_INVALID);
  ring_pmi_abort(NULL, "nothing");
  ring_pmi_free(NULL);
}

int main(void) {
  RUN(test_programs_find_each_other);
  RUN(test_programs_end_at_any_time);
  RUN(test_close_reads_what_was_sent);
  RUN(test_programs_without_mpi);
  RUN(test_no_descriptor_is_left);
  RUN(test_bad_arguments);
  return 0;
}
