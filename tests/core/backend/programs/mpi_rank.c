/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that an mpirun has started: plays the scene that its argument names, and ends with 0 when all came as
 * it should. test_mpi.c starts the ranks.
 */
#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "mpi_compare.h"
#include "ranks.h"
#include "values.h"

enum { LIMIT = 60 };

/* A communicator of the ranks that mpirun has started, of that backend. */
static ring_status open_job(const char *backend, double call_timeout, ring_comm **comm,
                            ring_error *error) {
  ring_options options = RING_OPTIONS_INIT;
  options.backend = backend;
  options.job = backend;
  options.call_timeout = call_timeout;
  options.timeout = 60;
  return ring_comm_open(&options, comm, error);
}

static ring_comm *open_backend(const char *backend, double call_timeout) {
  ring_comm *comm;
  ring_error error;
  ring_status status = open_job(backend, call_timeout, &comm, &error);
  if (status != RING_OK) fprintf(stderr, "open: %s\n", error.message);
  CHECK_INT(status, RING_OK);
  return comm;
}

/* One whose calls MPI's own collectives carry out. */
static ring_comm *open_own(void) {
  CHECK_INT(setenv("SPARKRING_MPI_MESSAGES", "0", 1), 0);
  ring_comm *comm = open_backend("mpi", 60);
  CHECK_INT(unsetenv("SPARKRING_MPI_MESSAGES"), 0);
  return comm;
}

static void expect_backend(ring_comm *comm, const char *collective, const char *backend) {
  ring_explanation explanation;
  CHECK_INT(ring_comm_explain(comm, collective, 4096, RING_FLOAT32, 0, &explanation), RING_OK);
  CHECK_CONTAINS(explanation.backend, backend);
  CHECK_CONTAINS(explanation.text, backend);
}

static void expect_way(ring_comm *comm, const char *collective, const char *way) {
  ring_explanation explanation;
  CHECK_INT(ring_comm_explain(comm, collective, 4096, RING_FLOAT32, 0, &explanation), RING_OK);
  CHECK_CONTAINS(explanation.text, way);
}

/* ---- Working ------------------------------------------------------------------------------ */

/* NaN where any rank has it, and -0 for less than +0. */
static void check_extremes(ring_comm *comm) {
  int rank = ring_comm_rank(comm), last = ring_comm_size(comm) - 1;
  float x[3] = {rank == last ? NAN : 1, rank == 0 ? NAN : 2, rank == last ? -0.0F : 0.0F}, y[3];
  double big[3] = {x[0], x[1], x[2]}, least[3];
  for (int i = 0; i < 2; i++) {
    ring_op op = i == 0 ? RING_MIN : RING_MAX;
    CHECK_INT(ring_allreduce(comm, x, y, 3, RING_FLOAT32, op), RING_OK);
    CHECK_INT(ring_allreduce(comm, big, least, 3, RING_FLOAT64, op), RING_OK);
    CHECK(isnan(y[0]) && isnan(y[1]) && isnan(least[0]) && isnan(least[1]));
    CHECK_INT(signbit(y[2]) != 0, op == RING_MIN);
    CHECK_INT(signbit(least[2]) != 0, op == RING_MIN);
  }
}

/* Sums in any order, within what float32 rounds; and one that bfloat16 would lose if each step were rounded. */
static void check_rounding(ring_comm *comm) {
  enum { COUNT = 1000 };
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  static float x[COUNT], y[COUNT];
  uint16_t half = rank == 0 ? 0x4380 : 0x3f80, sum; /* 256, and 1 */
  for (size_t i = 0; i < COUNT; i++) x[i] = (float)rough(rank, i);
  CHECK_INT(ring_allreduce(comm, x, y, COUNT, RING_FLOAT32, RING_SUM), RING_OK);
  for (size_t i = 0; i < COUNT; i++) {
    double expected = 0, magnitude = 0;
    for (int r = 0; r < size; r++) {
      expected += (float)rough(r, i);
      magnitude += fabs(rough(r, i));
    }
    CHECK(fabs(y[i] - expected) <= 1e-6 * magnitude);
  }
  CHECK_INT(ring_allreduce(comm, &half, &sum, 1, RING_BFLOAT16, RING_SUM), RING_OK);
  if (size == 3) CHECK_INT(sum, 0x4381); /* 258 */
}

static void check_requests(ring_comm *comm) {
  enum { REQUESTS = 5, COUNT = 40000 };
  int size = ring_comm_size(comm);
  int32_t *buffers[REQUESTS];
  ring_request *requests[REQUESTS];
  for (int i = 0; i < REQUESTS; i++) {
    buffers[i] = malloc(COUNT * sizeof(int32_t));
    for (int j = 0; j < COUNT; j++) buffers[i][j] = i + j;
    CHECK_INT(ring_allreduce_start(comm, buffers[i], buffers[i], COUNT, RING_INT32, RING_SUM,
                                   &requests[i]),
              RING_OK);
  }
  CHECK_INT(ring_barrier(comm), RING_OK);
  for (int i = 0; i < REQUESTS; i++) {
    CHECK_INT(ring_request_wait(requests[i]), RING_OK);
    ring_request_free(requests[i]);
    for (int j = 0; j < COUNT; j++) CHECK_INT(buffers[i][j], size * (i + j));
    free(buffers[i]);
  }
}

static void check_group(ring_comm *comm) {
  float short_buffer[3] = {1, 2, 3}, *long_buffer = calloc(100000, sizeof(float)), mean = 3;
  ring_buffer buffers[2] = {{short_buffer, short_buffer, 3}, {long_buffer, long_buffer, 100000}};
  float size = (float)ring_comm_size(comm);
  long_buffer[99999] = 5;
  CHECK_INT(ring_allreduce_group(comm, buffers, 2, RING_FLOAT32, RING_SUM), RING_OK);
  CHECK(short_buffer[2] == 3 * size && long_buffer[99999] == 5 * size);
  ring_comm_scale(comm, 2, 0.5);
  CHECK_INT(ring_allreduce(comm, &mean, &mean, 1, RING_FLOAT32, RING_AVG), RING_OK);
  CHECK(mean == 3);
  free(long_buffer);
}

/* What MPI does not carry goes over the links. */
static void check_messages(ring_comm *comm) {
  int value = 17, rank = ring_comm_rank(comm);
  if (rank == 0) CHECK_INT(ring_send(comm, &value, 1, RING_INT32, 1), RING_OK);
  if (rank == 1) {
    value = 0;
    CHECK_INT(ring_recv(comm, &value, 1, RING_INT32, 0), RING_OK);
  }
  CHECK_INT(value, 17);
}

/* Children have MPI, too, where they have several ranks. */
static void check_children(ring_comm *comm) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  for (int round = 0; round < 3; round++) {
    ring_comm *child;
    int32_t sum = rank, key = round == 1 ? -rank : rank;
    CHECK_INT(ring_comm_split(comm, rank % 2, key, &child), RING_OK);
    expect_backend(child, "allreduce", ring_comm_size(child) > 1 ? "mpi" : "native");
    CHECK_INT(ring_allreduce(child, &sum, &sum, 1, RING_INT32, RING_SUM), RING_OK);
    int expected = 0;
    for (int i = rank % 2; i < size; i += 2) expected += i;
    CHECK_INT(sum, expected);
    close_rank(child);
  }
}

/* Requests of two communicators at once. Where MPI admits one thread at a time, their threads take turns. */
static void check_turns(ring_comm *comm) {
  enum { COUNT = 100000 };
  ring_comm *comms[2] = {comm, NULL};
  ring_request *requests[2];
  static int32_t buffers[2][COUNT];
  CHECK_INT(ring_comm_split(comm, 0, ring_comm_rank(comm), &comms[1]), RING_OK);
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < 2; i++) {
      buffers[i][COUNT - 1] = round + i;
      CHECK_INT(ring_allreduce_start(comms[i], buffers[i], buffers[i], COUNT, RING_INT32, RING_SUM,
                                     &requests[i]),
                RING_OK);
    }
    for (int i = 0; i < 2; i++) {
      CHECK_INT(ring_request_wait(requests[i]), RING_OK);
      ring_request_free(requests[i]);
      CHECK_INT(buffers[i][COUNT - 1], ring_comm_size(comm) * (round + i));
    }
  }
  close_rank(comms[1]);
}

static void scene_compare(bool all) {
  ring_comm *comms[2] = {open_backend("native", 60), open_backend("mpi", 60)};
  expect_backend(comms[0], "allreduce", "native");
  expect_backend(comms[1], "allreduce", "mpi");
  expect_backend(comms[1], "barrier", "mpi");
  expect_way(comms[1], "allreduce", "doubling (messages of MPI)");
  compare_all(comms, all);
  check_turns(comms[1]);
  compare_places(comms);
  ring_comm *own[2] = {comms[0], open_own()};
  expect_way(own[1], "allreduce", "mpi (backend)");
  compare_all(own, all);
  compare_places(own);
  check_extremes(own[1]);
  check_rounding(own[1]);
  close_rank(own[1]);
  check_requests(comms[1]);
  check_group(comms[1]);
  check_messages(comms[1]);
  check_children(comms[1]);
  close_rank(comms[1]);
  close_rank(comms[0]);
}

/* Opens a communicator of MPI, which a rank may not do. */
static void refuse_open(const char *text) {
  ring_comm *comm;
  ring_error error;
  CHECK_INT(open_job("mpi", 20, &comm, &error), RING_UNSUPPORTED);
  CHECK(comm == NULL);
  CHECK_CONTAINS(error.message, text);
}

/* A second communicator of a process, after the first one is gone, and one in a forked child. */
static void scene_again(void) {
  int status;
  for (int round = 0; round < 2; round++) {
    ring_comm *comm = open_backend("mpi", 60);
    CHECK_INT(ring_barrier(comm), RING_OK);
    close_rank(comm);
  }
  pid_t child = fork_for(LIMIT);
  if (child == 0) {
    refuse_open("is a forked child");
    _exit(0);
  }
  CHECK_INT(waitpid(child, &status, 0), child);
  CHECK_INT(status, 0);
}

/* Root waits for another rank over links, and then closes, while others still receive what root has sent by MPI: MPI
 * has to move it. */
static void scene_ahead(void) {
  static int32_t x[1000];
  ring_comm *comm = open_backend("mpi", 60);
  if (ring_comm_rank(comm) != 0) usleep(500000);
  for (int32_t i = 0; i < 2000; i++) {
    x[999] = ring_comm_rank(comm) == 0 ? i : -1;
    CHECK_INT(ring_broadcast(comm, x, x, 1000, RING_INT32, 0), RING_OK);
    CHECK_INT(x[999], i);
  }
  if (ring_comm_rank(comm) == 0) CHECK_INT(ring_recv(comm, x, 1000, RING_INT32, 1), RING_OK);
  if (ring_comm_rank(comm) == 1) CHECK_INT(ring_send(comm, x, 1000, RING_INT32, 0), RING_OK);
  close_rank(comm);
}

/* ---- Failures ----------------------------------------------------------------------------- */

static ring_status reduce_some(ring_comm *comm, size_t count, ring_op op) {
  static int32_t x[1000], y[1000];
  return ring_allreduce(comm, x, y, count, RING_INT32, op);
}

static char report_path[512];

/* How each rank's call ended, and the error, in a file of its own: a launcher may lose what ranks print after one was
 * killed. */
static void report(ring_comm *comm, ring_status status) {
  const ring_error *error = ring_comm_error(comm);
  char written[520];
  snprintf(report_path, sizeof report_path, "%s/%d", getenv("MPI_REPORTS"), ring_comm_rank(comm));
  snprintf(written, sizeof written, "%s.new", report_path);
  FILE *file = fopen(written, "w");
  CHECK(file != NULL);
  fprintf(file, "%s at %d: %s\n", ring_status_name(status), error->rank,
          status != RING_OK ? error->message : "");
  CHECK_INT(fclose(file), 0);
}

/* The first handler of exit(), so the last that runs: there is no report where an exit never ends, as in MPI_Finalize
 * without the other ranks. */
static void publish(void) {
  char written[520];
  snprintf(written, sizeof written, "%s.new", report_path);
  if (report_path[0] != '\0') CHECK_INT(rename(written, report_path), 0);
}

/* Leaves as a program does that has an error. */
static void end(ring_comm *comm) {
  ring_comm_free(comm);
  exit(0);
}

/* Goes on in a session of its own. MPICH's launcher signals all process groups of its ranks once one is killed. */
static void leave_launcher(void) {
  pid_t child = fork_for(LIMIT);
  int status;
  if (child == 0) {
    setsid();
    return;
  }
  CHECK_INT(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) raise(SIGKILL);
  _exit(WEXITSTATUS(status));
}

/* Rank 1 is killed while the others wait for it. */
static void scene_killed(void) {
  leave_launcher();
  ring_comm *comm = open_backend("mpi", 60);
  CHECK_INT(reduce_some(comm, 1000, RING_SUM), RING_OK);
  if (ring_comm_rank(comm) == 1) {
    usleep(300000);
    raise(SIGKILL);
  }
  report(comm, reduce_some(comm, 1000, RING_SUM));
  end(comm);
}

/* A signal ends rank 1 while data move: some ranks have a part of the message, and requests under way. */
static void scene_amid(void) {
  enum { COUNT = 1 << 20 };
  static int32_t x[COUNT], y[COUNT];
  leave_launcher();
  ring_comm *comm = open_backend("mpi", 60);
  CHECK_INT(ring_barrier(comm), RING_OK);
  if (ring_comm_rank(comm) == 1)
    CHECK_INT(setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 200000}, NULL), 0);
  ring_status status;
  do status = ring_allreduce(comm, x, y, COUNT, RING_INT32, RING_SUM);
  while (status == RING_OK);
  report(comm, status);
  end(comm);
}

/* Rank 1 comes too late. MPI may still use the buffers of the call, so no communicator calls it any more. */
static void scene_late(void) {
  ring_comm *comm = open_backend("mpi", 1.5), *sibling;
  CHECK_INT(ring_comm_split(comm, 0, ring_comm_rank(comm), &sibling), RING_OK);
  CHECK_INT(reduce_some(sibling, 1000, RING_SUM), RING_OK);
  if (ring_comm_rank(comm) == 1) sleep(3);
  ring_status status = reduce_some(comm, 1000, RING_SUM);
  if (ring_comm_rank(comm) == 0) {
    CHECK_INT(ring_barrier(sibling), RING_ABORTED);
    CHECK_CONTAINS(ring_comm_error(sibling)->message, "does not use MPI any more");
  }
  if (ring_comm_rank(comm) == 2) CHECK_INT(ring_comm_close(sibling), RING_ABORTED);
  report(comm, status);
  end(comm);
}

/* Root waits for rank 1. Rank 2 has given its part, and is not at fault. */
static void scene_finished(void) {
  ring_comm *comm = open_backend("mpi", 1.5);
  int32_t part = 1, all[3];
  if (ring_comm_rank(comm) == 1) sleep(3);
  ring_status status = ring_gather(comm, &part, all, 1, RING_INT32, 0);
  if (ring_comm_rank(comm) != 0) {
    CHECK_INT(status, RING_OK);
    if (ring_comm_rank(comm) == 2) sleep(3);
    status = ring_barrier(comm);
  }
  report(comm, status);
  end(comm);
}

/* Rank 1 aborts between two calls, and ends in order: it does not wait for ranks that have abandoned MPI. */
static void scene_aborted(void) {
  ring_comm *comm = open_backend("mpi", 60);
  ring_status status = reduce_some(comm, 10, RING_SUM);
  CHECK_INT(status, RING_OK);
  if (ring_comm_rank(comm) == 1) {
    usleep(300000);
    ring_comm_abort(comm, "enough");
  }
  status = reduce_some(comm, 10, RING_SUM);
  report(comm, status);
  end(comm);
}

/* Rank 0 aborts while a thread has its request under way. Its part may have reached the others, whose call succeeds
 * then; the next one fails. */
static void scene_stopped(void) {
  ring_comm *comm = open_backend("mpi", 60);
  int32_t x[10] = {0};
  ring_request *request;
  ring_status status;
  CHECK_INT(ring_barrier(comm), RING_OK);
  if (ring_comm_rank(comm) == 0) {
    CHECK_INT(ring_allreduce_start(comm, x, x, 10, RING_INT32, RING_SUM, &request), RING_OK);
    usleep(300000);
    ring_comm_abort(comm, "enough");
    status = ring_request_wait(request);
    ring_request_free(request);
  } else {
    sleep(1);
    status = reduce_some(comm, 10, RING_SUM);
    if (status == RING_OK) status = ring_barrier(comm);
  }
  report(comm, status);
  end(comm);
}

/* The ranks pass different counts, ops or collectives, which close finds at the latest. */
static void scene_differ(const char *how) {
  ring_comm *comm = open_backend("mpi", 20);
  bool odd = ring_comm_rank(comm) == 1;
  ring_status status;
  if (strcmp(how, "counts") == 0)
    status = reduce_some(comm, odd ? 1000 : 10, RING_SUM);
  else if (strcmp(how, "ops") == 0)
    status = reduce_some(comm, 10, odd ? RING_MAX : RING_SUM);
  else
    status = odd ? ring_barrier(comm) : reduce_some(comm, 10, RING_SUM);
  if (status == RING_OK) status = ring_comm_close(comm);
  report(comm, status);
  end(comm);
}

static int interrupt(void *arg) {
  const bool *waits = arg;
  return *waits;
}

/* Rank 0 is interrupted while it waits for rank 1. */
static void scene_interrupted(void) {
  static bool waits;
  ring_options options = RING_OPTIONS_INIT;
  ring_comm *comm;
  options.backend = "mpi";
  options.interrupt = interrupt;
  options.interrupt_arg = &waits;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  waits = ring_comm_rank(comm) == 0;
  if (ring_comm_rank(comm) == 1) sleep(1);
  report(comm, reduce_some(comm, 10, RING_SUM));
  end(comm);
}

/* open fails alike on all ranks. Rank 1 may have another library, or another value of a variable. */
static void scene_refused(const char *other) {
  ring_comm *comm;
  const char *open_mpi = getenv("OMPI_COMM_WORLD_RANK"), *mpich = getenv("PMI_RANK");
  const char *rank = open_mpi != NULL ? open_mpi : mpich;
  CHECK(rank != NULL);
  if (other != NULL && strcmp(rank, "1") == 0 && strchr(other, '=') != NULL)
    CHECK_INT(putenv((char *)(uintptr_t)other), 0);
  else if (other != NULL && strcmp(rank, "1") == 0)
    CHECK_INT(setenv("SPARKRING_MPI_LIBRARY", other, 1), 0);
  ring_error error;
  ring_status status = open_job("mpi", 20, &comm, &error);
  printf("%s at %d: %s\n", ring_status_name(status), error.rank, error.message);
  CHECK(comm == NULL);
  fflush(NULL);
  _exit(0);
}

static void open_unlaunched(int rank, int size, void *shared) {
  ring_comm *comm;
  ring_error error;
  ring_options options = rank_options(rank, size);
  (void)shared;
  options.backend = "mpi";
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_UNSUPPORTED);
  CHECK_CONTAINS(error.message, "rank 0 was not started by a launcher of MPI");
}

/* Without a launcher MPI_Init might end the process. */
static void scene_unlaunched(void) {
  run_ranks(2, open_unlaunched, NULL);
}

/* ---- MPI of the program ------------------------------------------------------------------- */

static void find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  CHECK(found != NULL);
  memcpy(function, &found, sizeof found);
}

/* The program has initialized MPI, for one thread or for several, and finalizes it. Its library is found wherever the
 * program has loaded it, under any name. */
static void scene_initialized(const char *library_name, const char *threads) {
  bool several = atoi(threads) > 0;
  void *library = dlopen(library_name, RTLD_NOW | (several ? RTLD_GLOBAL : RTLD_LOCAL));
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != NULL);
  int (*init)(int *, char ***, int, int *), (*finalize)(void), (*is_finalized)(int *), provided, is;
  find(library, "MPI_Init_thread", &init);
  find(library, "MPI_Finalize", &finalize);
  find(library, "MPI_Finalized", &is_finalized);
  CHECK_INT(init(NULL, NULL, atoi(threads), &provided), 0);
  ring_comm *comm;
  ring_error error;
  ring_status status = open_job("mpi", 20, &comm, &error);
  if (several) {
    if (status != RING_OK) fprintf(stderr, "%s\n", error.message);
    CHECK_INT(status, RING_OK);
    check_turns(comm);
    close_rank(comm);
  } else {
    CHECK_INT(status, RING_UNSUPPORTED);
    CHECK_CONTAINS(error.message, "for one thread only");
  }
  CHECK_INT(is_finalized(&is), 0);
  CHECK_INT(is, 0);
  CHECK_INT(finalize(), 0);
  if (several) refuse_open("has finalized MPI");
}

static const struct {
  const char *name;
  void (*play)(void);
} scenes[] = {{"again", scene_again},
              {"ahead", scene_ahead},
              {"killed", scene_killed},
              {"amid", scene_amid},
              {"late", scene_late},
              {"finished", scene_finished},
              {"aborted", scene_aborted},
              {"stopped", scene_stopped},
              {"interrupted", scene_interrupted},
              {"unlaunched", scene_unlaunched}};

int main(int argc, char **argv) {
  CHECK(argc > 1);
  const char *scene = argv[1], *argument = argc > 2 ? argv[2] : NULL;
  alarm(LIMIT);
  atexit(publish);
  for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
    if (strcmp(scene, scenes[i].name) != 0) continue;
    scenes[i].play();
    return 0;
  }
  if (strcmp(scene, "compare") == 0)
    scene_compare(argument != NULL);
  else if (strcmp(scene, "refused") == 0)
    scene_refused(argument);
  else if (strcmp(scene, "initialized") == 0)
    scene_initialized(argument, argv[3]);
  else
    scene_differ(scene);
  return 0;
}
