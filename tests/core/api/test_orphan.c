/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks whose parent is killed while they wait, in every kind of wait: they end, and the other
 * ranks get the reason. A family is three ranks, of which one, the orphan, has a parent of its own.
 * No hook is set.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "load.h"
#include "ranks.h"

enum { SIZE = 3, ORPHAN = 1, LATE = 2, LONG = 1 << 20, SOON = 5, LIMIT = 120 };

/* Shared by the ranks of a family. */
typedef struct control_block {
  int arrived;
  int waits;  /* the orphan, or it is about to */
  int killed; /* its parent has been */
  int ended;  /* the orphan's wait has */
  long parent;
  double killed_at;
  char texts[SIZE][1024]; /* of an exchange */
} control_block;

static control_block *shared;
static char token[64];
static float x[LONG], y[LONG];

static void await(const int *flag) {
  while (*(const volatile int *)flag == 0) usleep(1000);
}

/* ---- Families ----------------------------------------------------------------------------- */

/* Runs the orphan as a child of a process of its own, which waits to be killed. */
static pid_t fork_parent(rank_function function, int orphan, int output) {
  pid_t parent = fork_for(LIMIT);
  if (parent > 0) return parent;
  shared->parent = (long)getpid();
  if (fork_for(LIMIT) == 0) {
    function(orphan, SIZE, NULL);
    CHECK(write(output, "ended", 5) == 5);
    exit(0);
  }
  close(output);
  for (;;) pause();
}

static pid_t fork_rank(rank_function function, int rank, int output) {
  pid_t child = fork_for(LIMIT);
  if (child > 0) return child;
  close(output);
  function(rank, SIZE, NULL);
  exit(0);
}

/* The orphan gets this process, the subreaper, as its parent, or another one. In both cases it
 * has ended when the pipe has no writer, and passed if it wrote so. */
static void await_orphan(int output, bool subreaper) {
  char text[6] = "";
  int status;
  size_t length = 0;
  for (ssize_t got = 1; got > 0 && length < sizeof text - 1; length += (size_t)got) {
    got = read(output, text + length, sizeof text - 1 - length);
    CHECK(got >= 0);
  }
  CHECK_CONTAINS(text, "ended");
  CHECK_INT(read(output, text, 1), 0);
  if (!subreaper) return;
  CHECK(wait(&status) > 0);
  CHECK_INT(status, 0);
}

static void run_family(rank_function function, int orphan, bool subreaper) {
  int output[2], status;
  pid_t others[SIZE];
  shared = shared_alloc(sizeof *shared);
  snprintf(token, sizeof token, "a family of process %d", (int)getpid());
  CHECK_INT(pipe(output), 0);
  CHECK_INT(prctl(PR_SET_CHILD_SUBREAPER, subreaper ? 1UL : 0UL), 0);
  pid_t parent = fork_parent(function, orphan, output[1]);
  for (int rank = 0; rank < SIZE; rank++)
    if (rank != orphan) others[rank] = fork_rank(function, rank, output[1]);
  close(output[1]);
  await(&shared->waits);
  usleep(50000);
  shared->killed_at = seconds();
  kill(parent, SIGKILL);
  CHECK(waitpid(parent, &status, 0) == parent);
  shared->killed = 1;
  for (int rank = 0; rank < SIZE; rank++) {
    if (rank == orphan) continue;
    CHECK(waitpid(others[rank], &status, 0) == others[rank]);
    CHECK_INT(status, 0);
  }
  await_orphan(output[0], subreaper);
  close(output[0]);
  shared_free(shared, sizeof *shared);
}

static ring_options family_options(int rank) {
  ring_options options = rank_options(rank, SIZE);
  options.token = token;
  options.token_length = strlen(token);
  options.watch_parent = RING_ON;
  return options;
}

/* The same failure on the orphan and on the other ranks. */
static void check_orphaned(const ring_error *error, int orphan, const char *call) {
  char text[128];
  if (error->status != RING_ABORTED) fprintf(stderr, "%s\n", error->message);
  CHECK(seconds() - shared->killed_at < UNLOADED(SOON));
  CHECK_INT(error->status, RING_ABORTED);
  CHECK_INT(error->rank, orphan);
  snprintf(text, sizeof text, "rank %d was orphaned during %s", orphan, call);
  CHECK_CONTAINS(error->message, text);
  snprintf(text, sizeof text, "the process that started it (pid %ld) has ended", shared->parent);
  CHECK_CONTAINS(error->message, text);
  CHECK_CONTAINS(error->message, "the Spark executor died or was killed");
}

/* ---- Calls -------------------------------------------------------------------------------- */

typedef void (*call_function)(ring_comm *comm, int rank, ring_error *error);

static void call_barrier(ring_comm *comm, int rank, ring_error *error) {
  (void)rank;
  ring_barrier(comm);
  *error = *ring_comm_error(comm);
}

static void call_short(ring_comm *comm, int rank, ring_error *error) {
  (void)rank;
  ring_allreduce(comm, x, y, 2, RING_FLOAT32, RING_SUM);
  *error = *ring_comm_error(comm);
}

static void call_long(ring_comm *comm, int rank, ring_error *error) {
  (void)rank;
  ring_allreduce(comm, x, y, LONG, RING_FLOAT32, RING_SUM);
  *error = *ring_comm_error(comm);
}

static void call_message(ring_comm *comm, int rank, ring_error *error) {
  if (rank == ORPHAN)
    ring_recv(comm, y, 2, RING_FLOAT32, LATE);
  else
    ring_barrier(comm);
  *error = *ring_comm_error(comm);
}

static void call_request(ring_comm *comm, int rank, ring_error *error) {
  ring_request *request;
  (void)rank;
  if (ring_allreduce_start(comm, x, y, 2, RING_FLOAT32, RING_SUM, &request) != RING_OK) {
    *error = *ring_comm_error(comm);
    return;
  }
  ring_request_wait(request);
  *error = *ring_request_error(request);
  ring_request_free(request);
}

/* Nobody waits but the thread that runs the request. */
static void call_request_alone(ring_comm *comm, int rank, ring_error *error) {
  ring_request *request;
  int done = 0;
  (void)rank;
  if (ring_allreduce_start(comm, x, y, 2, RING_FLOAT32, RING_SUM, &request) != RING_OK) {
    *error = *ring_comm_error(comm);
    return;
  }
  for (; done == 0; usleep(1000)) ring_request_test(request, &done);
  *error = *ring_request_error(request);
  ring_request_free(request);
}

static void call_split(ring_comm *comm, int rank, ring_error *error) {
  ring_comm *child;
  ring_comm_split(comm, 0, rank, &child);
  *error = *ring_comm_error(comm);
}

static void call_close(ring_comm *comm, int rank, ring_error *error) {
  (void)rank;
  ring_comm_close(comm);
  *error = *ring_comm_error(comm);
}

static call_function call;    /* in which the orphan waits */
static const char *call_name; /* as errors name it */
static bool in_child;         /* it is a call on a communicator that was split off */

/* All wait for the rank that comes when the orphan has ended. Its first call may return a result
 * from before, and the next one the failure. */
static void wait_in_call(int rank, int size, void *unused) {
  (void)unused;
  ring_options options = family_options(rank);
  ring_comm *comm, *child = NULL;
  ring_error error;
  comm = open_with(&options);
  if (in_child) CHECK_INT(ring_comm_split(comm, 0, rank, &child), RING_OK);
  ranks_barrier(&shared->arrived, size);
  if (rank == ORPHAN) shared->waits = 1;
  if (rank == LATE) await(&shared->ended);
  call(in_child ? child : comm, rank, &error);
  if (rank == ORPHAN) shared->ended = 1;
  if (rank == LATE && error.status == RING_OK) call_barrier(in_child ? child : comm, rank, &error);
  check_orphaned(&error, ORPHAN, call_name);
  ring_comm_free(child);
  ring_comm_free(comm);
}

static void test_calls(void) {
  static const struct {
    const char *name;
    call_function call;
    const char *as;
    bool in_child;
  } ways[] = {{"barrier", call_barrier, "barrier() as call ", false},
              {"short", call_short, "allreduce(", false},
              {"long", call_long, "allreduce(", false},
              {"message", call_message, "message", false},
              {"request", call_request, "allreduce(", false},
              {"request that nobody waits for", call_request_alone, "allreduce(", false},
              {"split", call_split, "split()", false},
              {"call of a split communicator", call_short, "allreduce(", true},
              {"close", call_close, "close()", false}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    printf("  %s\n", ways[i].name);
    call = ways[i].call;
    call_name = ways[i].as;
    in_child = ways[i].in_child;
    run_family(wait_in_call, ORPHAN, i % 2 == 0);
  }
}

/* ---- Open --------------------------------------------------------------------------------- */

typedef struct opening {
  const char *name;
  int orphan;
  bool alone;    /* else the other one of ranks 0 and 1 is there, too; the late one never comes */
  bool exchange; /* in which the late one takes part, and then no more */
  bool too_late; /* the parent ends before the orphan opens */
} opening;

static const opening *opened;

static int exchange_texts(void *arg, const char *mine, ring_exchange_put_fn put, void *sink) {
  int rank = *(const int *)arg;
  CHECK(strlen(mine) < sizeof shared->texts[0]);
  strcpy(shared->texts[rank], mine);
  ranks_barrier(&shared->arrived, SIZE);
  if (rank == LATE) await(&shared->ended);
  for (int i = 0; i < SIZE; i++) put(sink, i, shared->texts[i]);
  return rank == LATE;
}

/* Rank 0 waits, and so do the ranks that have reached it. After an exchange these are linked
 * when rank 0 waits for the late one alone: on a busy machine that takes a while. */
static void await_rank_0(void *arg, const char *message) {
  bool arrived = strstr(message, "it has joined rank 0") != NULL;
  bool waits = strstr(message, "rank 0 has waited") != NULL;
  (void)arg;
  if (opened->exchange) arrived = waits && strstr(message, "rank 1 (") == NULL;
  if (arrived) shared->waits = 1;
}

static void wait_in_open(int rank, int size, void *unused) {
  (void)size, (void)unused;
  ring_options options = family_options(rank);
  ring_comm *comm;
  ring_error error;
  if (rank != opened->orphan && (opened->alone || (rank == LATE && !opened->exchange))) return;
  if (opened->exchange) {
    options.exchange = exchange_texts;
    options.exchange_arg = &rank;
  }
  options.warn_after = 0.1;
  options.log = await_rank_0;
  if (opened->alone) shared->waits = 1;
  if (opened->too_late) await(&shared->killed);
  CHECK(ring_comm_open(&options, &comm, &error) != RING_OK);
  CHECK(comm == NULL);
  if (rank == opened->orphan) shared->ended = 1;
  if (rank != LATE) check_orphaned(&error, opened->orphan, "open()");
}

/* A rank that leaves during the rendezvous may come again, so rank 0 reports no failure then. */
static void test_open(void) {
  static const opening openings[] = {
      {.name = "rank 0, alone", .orphan = 0, .alone = true},
      {.name = "rank 0, with one that came", .orphan = 0},
      {.name = "rank 1, alone", .orphan = 1, .alone = true},
      {.name = "after an exchange", .orphan = 1, .exchange = true},
      {.name = "the parent ends before", .orphan = 1, .alone = true, .too_late = true}};
  for (size_t i = 0; i < sizeof openings / sizeof *openings; i++) {
    printf("  %s\n", openings[i].name);
    opened = &openings[i];
    run_family(wait_in_open, opened->orphan, i % 2 == 0);
  }
}

/* ---- MPI programs ------------------------------------------------------------------------- */

/* No rank is in a call while the programs run. */
static void run_program(int rank, int size, void *unused) {
  (void)unused;
  ring_options options = family_options(rank);
  ring_comm *comm = open_with(&options);
  ring_pmi *pmi;
  CHECK_INT(ring_pmi_serve(comm, 0, &pmi), RING_OK);
  ranks_barrier(&shared->arrived, size);
  if (rank == ORPHAN) shared->waits = 1;
  while (ring_pmi_test(pmi, NULL, NULL) == RING_OK) usleep(1000);
  check_orphaned(ring_pmi_error(pmi), ORPHAN, "an MPI program");
  ring_pmi_free(pmi);
  ring_comm_free(comm);
}

static void test_programs(void) {
  run_family(run_program, ORPHAN, true);
}

/* ---- Who does not watch ------------------------------------------------------------------- */

/* Without the option, an orphan waits on. */
static void wait_on(int rank, int size, void *unused) {
  (void)unused;
  ring_options options = family_options(rank);
  options.watch_parent = RING_OFF;
  ring_comm *comm = open_with(&options);
  ranks_barrier(&shared->arrived, size);
  if (rank == ORPHAN) shared->waits = 1;
  if (rank == LATE) {
    await(&shared->killed);
    usleep(300000);
  }
  for (int i = 0; i < 2; i++) x[i] = 1;
  CHECK_INT(ring_allreduce(comm, x, y, 2, RING_FLOAT32, RING_SUM), RING_OK);
  CHECK(y[0] == SIZE && y[1] == SIZE);
  close_rank(comm);
}

static void test_who_does_not_watch(void) {
  run_family(wait_on, ORPHAN, true);
}

int main(void) {
  RUN(test_calls);
  RUN(test_open);
  RUN(test_programs);
  RUN(test_who_does_not_watch);
  return 0;
}
