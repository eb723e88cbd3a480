/* SPDX-License-Identifier: Apache-2.0
 *
 * Scenes in which a rank fails, comes late, aborts, or calls something else. Each rank reports how its call ended.
 */
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "mpi_scenes.h"
#include "ranks.h"

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

void publish_report(void) {
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

void scene_killed(void) {
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

void scene_amid(void) {
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

void scene_late(void) {
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

void scene_finished(void) {
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

void scene_aborted(void) {
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

void scene_stopped(void) {
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

void scene_differ(const char *how) {
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

void scene_interrupted(void) {
  static bool waits;
  ring_options options = RING_OPTIONS_INIT;
  options.backend = "mpi";
  options.interrupt = interrupt;
  options.interrupt_arg = &waits;
  ring_comm *comm = open_with(&options);
  waits = ring_comm_rank(comm) == 0;
  if (ring_comm_rank(comm) == 1) sleep(1);
  report(comm, reduce_some(comm, 10, RING_SUM));
  end(comm);
}
