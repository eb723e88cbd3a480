/* SPDX-License-Identifier: Apache-2.0 */
#include "workload.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "leaks.h"
#include "ranks.h"

#define WORKLOAD_SECONDS 60     /* after which a rank hangs */
#define WORKLOAD_OPEN_SECONDS 3 /* for the others to miss a victim that never came */
#define WORKLOAD_SOON 3.0       /* 1 s where nothing else runs */
#define WORKLOAD_EXCHANGED 1.8  /* who fails after an exchange waits 1.5 s for others */

enum { SIZE = WORKLOAD_RANKS, SHORT = 10, LONG = 60000 };

typedef struct run {
  ring_comm *comm, *child;
  int rank;
  workload *work;
  workload_end *end;
} run;

/* Not on the heap, which may be what fails. */
static float x[SIZE * LONG], y[SIZE * LONG];
static const size_t counts[SIZE] = {3, 0, 70};

/* ---- Steps -------------------------------------------------------------------------------- */

static void fill(float *buffer, size_t count, float value) {
  for (size_t i = 0; i < count; i++) buffer[i] = value;
}

static void expect(const float *buffer, size_t count, float value) {
  for (size_t i = 0; i < count; i++) CHECK(buffer[i] == value);
}

static ring_status run_reductions(run *r) {
  float own = (float)r->rank + 1;
  fill(x, SIZE * LONG, own);
  ring_status status = ring_allreduce(r->comm, x, y, SHORT, RING_FLOAT32, RING_SUM);
  if (status != RING_OK) return status;
  expect(y, SHORT, 6);
  status = ring_allreduce(r->comm, x, y, LONG, RING_FLOAT32, RING_SUM);
  if (status != RING_OK) return status;
  expect(y, LONG, 6);
  status = ring_reduce(r->comm, x, y, LONG, RING_FLOAT32, RING_MAX, 1);
  if (status != RING_OK) return status;
  if (r->rank == 1) expect(y, LONG, 3);
  status = ring_reduce_scatter(r->comm, x, y, LONG, RING_FLOAT32, RING_SUM);
  if (status == RING_OK) expect(y, LONG, 6);
  return status;
}

static ring_status run_moves(run *r) {
  fill(x, SIZE * LONG, (float)r->rank + 1);
  ring_status status = ring_broadcast(r->comm, x, y, LONG, RING_FLOAT32, 2);
  if (status != RING_OK) return status;
  expect(y, LONG, 3);
  status = ring_allgather(r->comm, x, y, SHORT, RING_FLOAT32);
  if (status != RING_OK) return status;
  for (int i = 0; i < SIZE; i++) expect(y + i * SHORT, SHORT, (float)i + 1);
  status = ring_gather(r->comm, x, y, LONG, RING_FLOAT32, 0);
  if (status != RING_OK) return status;
  for (int i = 0; i < SIZE && r->rank == 0; i++) expect(y + i * LONG, LONG, (float)i + 1);
  status = ring_scatter(r->comm, x, y, SHORT, RING_FLOAT32, 1);
  if (status != RING_OK) return status;
  expect(y, SHORT, 2);
  status = ring_alltoall(r->comm, x, y, LONG, RING_FLOAT32);
  if (status != RING_OK) return status;
  for (int i = 0; i < SIZE; i++) expect(y + i * LONG, LONG, (float)i + 1);
  return ring_barrier(r->comm);
}

static ring_status run_counted(run *r) {
  fill(x, SIZE * LONG, (float)r->rank + 1);
  ring_status status = ring_allgatherv(r->comm, x, y, counts, RING_FLOAT32);
  if (status != RING_OK) return status;
  expect(y, 3, 1);
  expect(y + 3, 70, 3);
  status = ring_gatherv(r->comm, x, y, counts, RING_FLOAT32, 2);
  if (status != RING_OK) return status;
  status = ring_scatterv(r->comm, x, y, counts, RING_FLOAT32, 1);
  if (status != RING_OK) return status;
  expect(y, counts[r->rank], 2);
  size_t even[SIZE] = {7, 7, 7};
  status = ring_alltoallv(r->comm, x, even, y, even, RING_FLOAT32);
  for (int i = 0; status == RING_OK && i < SIZE; i++) expect(y + i * 7, 7, (float)i + 1);
  return status;
}

static ring_status run_messages(run *r) {
  int next = (r->rank + 1) % SIZE, last = (r->rank + SIZE - 1) % SIZE;
  fill(x, LONG, (float)r->rank + 1);
  ring_status status = RING_OK;
  if (r->rank != 0) status = ring_recv(r->comm, y, LONG, RING_FLOAT32, last);
  if (status == RING_OK) status = ring_send(r->comm, x, LONG, RING_FLOAT32, next);
  if (status == RING_OK && r->rank == 0) status = ring_recv(r->comm, y, LONG, RING_FLOAT32, last);
  if (status == RING_OK) expect(y, LONG, (float)last + 1);
  return status;
}

static ring_status run_groups(run *r) {
  ring_buffer buffers[3] = {{x, y, SHORT}, {x, y + SHORT, LONG - SHORT}, {x, y + LONG, 900}};
  fill(x, LONG, (float)r->rank + 1);
  ring_status status = ring_allreduce_group(r->comm, buffers, 3, RING_FLOAT32, RING_SUM);
  if (status == RING_OK) expect(y, LONG + 900, 6);
  return status;
}

/* What fails here is this rank's affair alone, and can be done again. */
static ring_status run_local(run *r) {
  ring_explanation explanation;
  float *memory;
  ring_status status = ring_alloc(r->comm, LONG * sizeof *memory, (void **)&memory);
  if (status != RING_OK) {
    CHECK_INT(status, RING_NO_MEMORY);
    memory = y; /* ordinary memory is as good */
  }
  status = ring_comm_explain(r->comm, "allreduce", 1000000, RING_FLOAT32, 0, &explanation);
  if (status != RING_OK) CHECK_INT(status, RING_NO_MEMORY);
  if (status != RING_OK) CHECK_CONTAINS(ring_comm_error(r->comm)->message, "out of memory");
  fill(memory, LONG, (float)r->rank + 1);
  status = ring_allreduce(r->comm, memory, memory, LONG, RING_FLOAT32, RING_SUM);
  if (status == RING_OK) expect(memory, LONG, 6);
  if (memory != y) ring_free(memory);
  return status;
}

static ring_status run_requests(run *r) {
  ring_request *requests[4] = {NULL};
  ring_buffer buffers[2] = {{x, y + SHORT, 900}, {x, y + LONG, LONG}};
  fill(x, LONG, (float)r->rank + 1);
  ring_status status = ring_allreduce_start(r->comm, x, y, SHORT, RING_FLOAT32, RING_SUM, requests);
  if (status == RING_OK)
    status = ring_allgatherv_start(r->comm, x, y + 2 * LONG, counts, RING_FLOAT32, &requests[1]);
  if (status == RING_OK)
    status = ring_allreduce_group_start(r->comm, buffers, 2, RING_FLOAT32, RING_SUM, &requests[2]);
  if (status == RING_OK) status = ring_barrier_start(r->comm, &requests[3]);
  for (int i = 0; i < 4 && requests[i] != NULL; i++) {
    ring_status ended = ring_request_wait(requests[i]);
    /* One that was finished before another could not be started is. */
    if (status != RING_OK && ended != RING_OK) CHECK_INT(ended, status);
    if (status == RING_OK && ended != RING_OK) {
      status = ended;
      r->end->fault = ring_request_error(requests[i])->rank;
      strcpy(r->end->message, ring_request_error(requests[i])->message);
    }
    ring_request_free(requests[i]);
  }
  if (status == RING_OK) expect(y, SHORT + 900, 6);
  if (status == RING_OK) expect(y + LONG, LONG, 6);
  return status;
}

static ring_status run_split(run *r) {
  fill(x, SHORT, (float)r->rank + 1);
  ring_status status = ring_comm_split(r->comm, 0, r->rank, &r->child);
  if (status != RING_OK) return status;
  status = ring_allreduce(r->child, x, y, SHORT, RING_FLOAT32, RING_SUM);
  if (status == RING_OK) expect(y, SHORT, 6);
  if (status == RING_OK) status = ring_comm_close(r->child);
  return status;
}

static ring_status run_close(run *r) {
  return ring_comm_close(r->comm);
}

static const struct {
  const char *name;
  ring_status (*run)(run *);
} steps[] = {
    {"reductions", run_reductions}, {"moves", run_moves},   {"counted", run_counted},
    {"messages", run_messages},     {"groups", run_groups}, {"local", run_local},
    {"requests", run_requests},     {"split", run_split},   {"close", run_close},
};
enum { STEPS = sizeof steps / sizeof steps[0] };

/* ---- A rank ------------------------------------------------------------------------------- */

static void fail(run *r, const char *step, ring_status status, const ring_error *error) {
  if (r->end->step != NULL) return;
  r->end->step = step;
  r->end->status = status;
  r->end->at = seconds();
  if (r->end->message[0] != '\0') return;
  r->end->fault = error->rank;
  strcpy(r->end->message, error->message);
  CHECK_INT(error->status, status);
}

/* Where ranks leave their texts for each other. */
static struct {
  char text[SIZE][256];
  int put;
} *control_block;

static int exchange(void *arg, const char *mine, ring_exchange_put_fn put, void *sink) {
  const run *r = arg;
  strcpy(control_block->text[r->rank], mine);
  __sync_fetch_and_add(&control_block->put, 1);
  for (int i = 0; *(volatile int *)&control_block->put < SIZE; i++) {
    if (i == WORKLOAD_OPEN_SECONDS * 1000) return 1;
    usleep(1000);
  }
  for (int i = 0; i < SIZE; i++) put(sink, i, control_block->text[i]);
  return 0;
}

static ring_options options_of(run *r) {
  ring_options options = rank_options(r->rank, SIZE);
  options.timeout = WORKLOAD_OPEN_SECONDS;
  options.call_timeout = WORKLOAD_SECONDS / 2.0;
  options.shared_memory = r->work->link == WORKLOAD_SHM ? RING_DEFAULT : RING_OFF;
  options.connections = r->work->link == WORKLOAD_CONNECTIONS ? 3 : 1;
  options.encryption = r->work->link == WORKLOAD_TLS ? RING_ON : RING_OFF;
  if (r->work->exchanges) options.exchange = exchange;
  options.exchange_arg = r;
  return options;
}

/* After a failure the ranks synchronize again at the close, if it was not the communicator that failed. */
static void run_steps(run *r) {
  for (int i = 0; i < STEPS && ring_comm_usable(r->comm); i++) {
    if (r->end->step != NULL && i < STEPS - 1) continue;
    ring_status status = steps[i].run(r);
    if (status == RING_OK) continue;
    const ring_comm *failed = r->child != NULL && i < STEPS - 1 ? r->child : r->comm;
    fail(r, steps[i].name, status, ring_comm_error(failed));
    if (r->child == NULL && ring_comm_usable(r->comm) && strcmp(steps[i].name, "split") != 0)
      return; /* a rank that gives up */
    ring_comm_free(r->child);
    r->child = NULL;
  }
  ring_comm_free(r->child);
}

static void run_rank(workload *work, int rank) {
  run r = {.rank = rank, .work = work, .end = &work->ends[rank]};
  ring_options options = options_of(&r);
  int before = count_descriptors();
  if (rank == work->victim && work->starve != NULL) work->starve(work->arg);
  ring_error error;
  ring_status status = ring_comm_open(&options, &r.comm, &error);
  if (status == RING_OK) {
    snprintf(r.end->link, sizeof r.end->link, "%s", ring_comm_link(r.comm, (rank + 1) % SIZE));
    run_steps(&r);
    ring_comm_free(r.comm);
  } else {
    fail(&r, "open", status, &error);
  }
  if (rank == work->victim && work->feed != NULL) work->feed(work->arg);
  CHECK_INT(count_descriptors(), before);
  r.end->came = true;
}

/* ---- All ranks ---------------------------------------------------------------------------- */

workload *workload_alloc(workload_link link, int victim) {
  workload *work = shared_alloc(sizeof *work);
  work->link = link;
  work->victim = victim;
  return work;
}

void workload_free(workload *work) {
  shared_free(work, sizeof *work);
}

bool workload_failed(const workload *work) {
  return work->ends[work->victim].step != NULL;
}

double workload_delay(const workload *work) {
  double delay = 0, begun = work->ends[work->victim].at;
  for (int rank = 0; rank < SIZE && workload_failed(work); rank++)
    if (work->ends[rank].step != NULL && work->ends[rank].at - begun > delay)
      delay = work->ends[rank].at - begun;
  return delay;
}

/* Whether those who had failed waited no more for one that came to them after an exchange. */
static bool missed_all(const workload *work) {
  double first = 0, last = 0;
  for (int rank = 0; rank < SIZE; rank++) {
    double at = work->ends[rank].at;
    if (work->ends[rank].step == NULL) continue;
    if (first == 0 || at < first) first = at;
    if (at > last) last = at;
  }
  return work->exchanges && last - first > WORKLOAD_EXCHANGED;
}

/* Whether a rank knows that the victim is gone, and not why. */
static bool only_misses(const workload *work, int rank) {
  const workload_end *end = &work->ends[rank];
  return end->status == RING_PEER_LOST && end->fault == work->victim;
}

/* Whether it knows that the victim takes no more links, and not why. */
static bool is_refused(const workload *work, int rank) {
  const workload_end *end = &work->ends[rank];
  return end->status == RING_ABORTED && end->fault == work->victim;
}

bool workload_late(const workload *work) {
  bool late = workload_delay(work) > WORKLOAD_SOON || missed_all(work);
  for (int rank = 0; rank < SIZE; rank++) {
    if (!work->ends[rank].came) return false;
    late = late || (work->ends[rank].step != NULL && work->ends[rank].status == RING_TIMEOUT);
    late = late || (rank != work->victim && (only_misses(work, rank) || is_refused(work, rank)));
  }
  return late;
}

const char *workload_link_name(workload_link link) {
  static const char *const names[WORKLOAD_LINKS] = {"shm", "tcp", "connections", "tls"};
  return names[link];
}

/* What is wrong with how a rank failed when it is not known which one lacked something, or NULL. */
static const char *blame_any(const workload *work, int rank) {
  const workload_end *end = &work->ends[rank];
  if (end->status == RING_NO_MEMORY || end->status == RING_SYSTEM) return NULL;
  if (end->fault < 0 || end->fault >= SIZE) return "names no rank";
  return work->ends[end->fault].step == NULL ? "names a rank that did not fail" : NULL;
}

/* Whether a rank waited until its deadline for a rank that never connected, which nobody can
 * report. */
static bool stood_up(const workload *work, const workload_end *end) {
  if (work->exchanges) return end->status == RING_ABORTED;
  return end->status == RING_TIMEOUT && (strstr(end->message, "ranks joined within") != NULL ||
                                         strstr(end->message, "ranks did so within") != NULL ||
                                         strstr(end->message, "did not find rank 0") != NULL);
}

/* Whether the victim may be unable to report what it lacks: over a link that could not be made, or
 * encrypted, and while it has no other one, or too late over that. */
static bool is_mute(const workload *work) {
  const workload_end *victim = &work->ends[work->victim];
  bool opens = strcmp(victim->step, "open") == 0, splits = strcmp(victim->step, "split") == 0;
  return work->link == WORKLOAD_TLS || (work->exchanges && opens) ||
         (victim->status == RING_SYSTEM && splits);
}

int workload_missed(const workload *work) {
  int missed = 0;
  for (int rank = 0; rank < SIZE && workload_failed(work); rank++)
    missed += rank != work->victim && only_misses(work, rank);
  return missed;
}

/* What is wrong with how a rank ended, or NULL. */
static const char *blame(const workload *work, int rank) {
  const workload_end *end = &work->ends[rank], *victim = &work->ends[work->victim];
  char name[16];
  snprintf(name, sizeof name, "rank %d", work->victim);
  if (!end->came) return "crashed, hung or failed a check";
  if (end->step == NULL) return NULL;
  if (work->all) return blame_any(work, rank);
  if (victim->step == NULL) return "failed although the victim did not";
  if (rank == work->victim) {
    bool well = end->status == RING_NO_MEMORY || end->status == RING_SYSTEM ||
                end->status == RING_UNSUPPORTED;
    return well ? NULL : "was the victim, and its error does not name what it lacks";
  }
  if (strcmp(victim->step, "open") == 0 && stood_up(work, end)) return NULL;
  if (only_misses(work, rank))
    return is_mute(work) ? NULL : "has no error of what the victim lacks";
  /* One that lacks descriptors may wait for some until its deadline, which is that of the others, too. */
  bool tired = victim->status == RING_SYSTEM && strcmp(victim->step, "open") == 0;
  if (tired && end->status == RING_TIMEOUT) return NULL;
  tired = tired && end->status == RING_ABORTED;
  if (end->status != victim->status && !tired) return "has no error of what the victim lacks";
  if (end->fault != work->victim && strstr(end->message, name) == NULL)
    return "has an error that does not name the victim";
  return end->at - victim->at > WORKLOAD_SOON ? "got its error too late" : NULL;
}

static bool judge(const workload *work, const char *what) {
  bool well = true;
  for (int rank = 0; rank < SIZE; rank++) well = well && blame(work, rank) == NULL;
  if (well) return true;
  fprintf(stderr, "%s, victim %d, %s:\n", workload_link_name(work->link), work->victim, what);
  for (int rank = 0; rank < SIZE; rank++) {
    const workload_end *end = &work->ends[rank];
    const char *wrong = blame(work, rank);
    fprintf(stderr, "  rank %d %s: %s %s at %.3f: %s\n", rank, wrong == NULL ? "is fine" : wrong,
            end->step != NULL ? end->step : "nothing", ring_status_name(end->status), end->at,
            end->message);
  }
  return false;
}

bool workload_run(workload *work, const char *what) {
  pid_t children[SIZE];
  memset(work->ends, 0, sizeof work->ends);
  control_block = shared_alloc(sizeof *control_block);
  fflush(NULL);
  for (int rank = 0; rank < SIZE; rank++) {
    children[rank] = fork();
    CHECK(children[rank] >= 0);
    if (children[rank] > 0) continue;
    alarm(WORKLOAD_SECONDS);
    run_rank(work, rank);
    exit(0);
  }
  for (int rank = 0; rank < SIZE; rank++) {
    int status = 0;
    CHECK(waitpid(children[rank], &status, 0) == children[rank]);
    if (status == 0) continue;
    fprintf(stderr, "rank %d ended with status %#x\n", rank, (unsigned)status);
    work->ends[rank].came = false;
  }
  shared_free(control_block, sizeof *control_block);
  return judge(work, what);
}

bool workload_run_again(workload *work, const char *what) {
  bool well = workload_run(work, what);
  for (int tries = 1; !well && tries < 3 && workload_late(work); tries++)
    well = workload_run(work, what);
  return well;
}
