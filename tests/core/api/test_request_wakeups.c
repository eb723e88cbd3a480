/* SPDX-License-Identifier: Apache-2.0
 *
 * The queue of requests in every interleaving of its threads: a starter, other threads that wait, the helper.
 * No wake-up is lost: every wait, start, abort and free returns.
 */
#include "api/fusion.h"
#include "api/request_queue.h"
#include "base/error.h"
#include "check.h"
#include "interleavings.h"
#include "ranks.h"

enum { MOST = 3, COUNT = 16384 /* elements, so that starts wait for each other */ };

static struct {
  int requests;
  int dies;         /* the run that fails, from 1 on; 0: none */
  bool hook_aborts; /* the hook of a run on a thread of the user aborts */
  bool no_helper;   /* no thread can be started */
  bool starts_wait; /* as where ranks share memory and processors */
} given;

static struct {
  ring_comm *comm;
  ring_request *requests[MOST];
  int runs;
} now;

/* ---- In place of the run of a collective ---------------------------------------------------- */

static ring_status fail_run(ring_comm *comm) {
  ring_error error;
  ring_error_set(&error, RING_PEER_LOST, 0, 0, "the run failed");
  ring_comm_break(comm, &error);
  return comm->failure.status;
}

/* A run takes time, sees the stop of the queue at its begin, at its end or not at all, and calls the hook. */
ring_status __wrap_ring_fusion_run(ring_comm *comm, collective_args *args, ring_wait *wait) {
  (void)args;
  int run = ++now.runs;
  if (ring_stop_is_set(wait->stop)) return fail_run(comm);
  interleavings_yield();
  if (wait->interrupt != NULL && wait->interrupt(wait->interrupt_arg) != 0) return fail_run(comm);
  interleavings_yield();
  if (run == given.dies) return fail_run(comm);
  if (ring_stop_is_set(wait->stop) && interleavings_choose(2) == 1) return fail_run(comm);
  return RING_OK;
}

bool __wrap_ring_shm_await_starts(ring_shm *shm, uint32_t number, uint64_t nanoseconds) {
  (void)shm, (void)number, (void)nanoseconds;
  interleavings_yield();
  return interleavings_choose(2) == 1;
}

void __wrap_ring_comm_break(ring_comm *comm, const ring_error *error);
void __real_ring_comm_break(ring_comm *comm, const ring_error *error);
void __wrap_ring_comm_break(ring_comm *comm, const ring_error *error) {
  comm->shm.formed = false;
  __real_ring_comm_break(comm, error);
}

static int abort_in_hook(void *unused) {
  (void)unused;
  ring_comm_abort(now.comm, "in a hook");
  return 0;
}

/* ---- Steps -------------------------------------------------------------------------------- */

static double buffer[2][COUNT];

static void open_alone(void) {
  ring_options options = rank_options(0, 1);
  if (given.hook_aborts) options.interrupt = abort_in_hook;
  memset(&now, 0, sizeof now);
  now.comm = open_with(&options);
  interleavings_refuse_threads(given.no_helper);
  now.comm->spare_cores = false;
}

/* A start that waits for other ranks sees memory that they share. */
static void start(int i) {
  static union {
    ring_control_block control_block;
    uint8_t bytes[sizeof(ring_control_block) + sizeof(ring_rank_block)];
  } shared;
  ring_shm *shm = &now.comm->shm;
  shm->control_block = &shared.control_block;
  shm->size = 1;
  shm->formed = given.starts_wait;
  ring_allreduce_start(now.comm, buffer[0], buffer[1], COUNT, RING_FLOAT64, RING_SUM,
                       &now.requests[i]);
  shm->formed = false;
}

static void start_all(void) {
  for (int i = 0; i < given.requests; i++) start(i);
}

static void wait_for(int i) {
  if (now.requests[i] == NULL) return;
  CHECK(ring_request_wait(now.requests[i]) != RING_BUSY);
}

static void wait_for_number(void *number) {
  wait_for(*(const int *)number);
}

static void free_all(void) {
  for (int i = 0; i < given.requests; i++) ring_request_free(now.requests[i]);
}

static void end(void) {
  ring_comm_free(now.comm);
  free_all();
  interleavings_end();
}

/* ---- Scenarios ---------------------------------------------------------------------------- */

/* Without waits: whatever lies in the queue ends. */
static void abort_at_once(void *unused) {
  (void)unused;
  open_alone();
  interleavings_begin();
  start_all();
  ring_comm_abort(now.comm, "planned");
  for (int i = 0; i < given.requests; i++) wait_for(i);
  end();
}

static void free_at_once(void *unused) {
  (void)unused;
  open_alone();
  interleavings_begin();
  start_all();
  end();
}

static const int numbers[MOST] = {0, 1, 2};

/* Other threads wait for requests, in another order, while this one aborts, waits, closes or calls. */
static void with_waiters(void (*own)(void)) {
  open_alone();
  start_all();
  interleavings_begin();
  interleavings_start(wait_for_number, (void *)(uintptr_t)&numbers[given.requests - 1]);
  interleavings_start(wait_for_number, (void *)(uintptr_t)&numbers[0]);
  own();
  interleavings_join();
  end();
}

static void own_abort(void) {
  ring_comm_abort(now.comm, "planned");
}

static void own_wait(void) {
  wait_for(given.requests > 1 ? 1 : 0);
}

static void own_close(void) {
  ring_status status = ring_comm_close(now.comm);
  if (given.dies == 0 && !given.hook_aborts) CHECK_INT(status, RING_OK);
}

static void own_barrier(void) {
  ring_barrier(now.comm);
}

static void scenario_of(void *own) {
  with_waiters((void (*)(void))(uintptr_t)own);
}

/* This thread starts while others wait for what it has started before. */
static void start_beside(void *unused) {
  (void)unused;
  open_alone();
  interleavings_begin();
  for (int i = 0; i < given.requests; i++) {
    start(i);
    interleavings_start(wait_for_number, (void *)(uintptr_t)&numbers[i]);
  }
  interleavings_join();
  end();
}

/* Two threads start. A start is refused while the other thread is in the communicator. */
static void start_and_wait_for_number(void *number) {
  start(*(const int *)number);
  wait_for_number(number);
}

static void start_in_two_threads(void *unused) {
  (void)unused;
  open_alone();
  start(0);
  interleavings_begin();
  for (int i = 1; i < given.requests; i++)
    interleavings_start(start_and_wait_for_number, (void *)(uintptr_t)&numbers[i]);
  wait_for(0);
  interleavings_join();
  end();
}

/* ---- Tests -------------------------------------------------------------------------------- */

static void explore(const char *name, void (*scenario)(void *), void (*own)(void),
                    int preemptions) {
  char text[64];
  snprintf(text, sizeof text, "%d requests, %s", given.requests, name);
  interleavings_explore(text, scenario, (void *)(uintptr_t)own, preemptions);
}

static void explore_waits(int requests, int preemptions) {
  given.requests = requests;
  explore("abort beside waits", scenario_of, own_abort, preemptions);
  explore("wait beside waits", scenario_of, own_wait, preemptions);
  explore("close beside waits", scenario_of, own_close, preemptions);
  explore("call beside waits", scenario_of, own_barrier, preemptions);
}

static void explore_all(int requests, int preemptions) {
  given.requests = requests;
  explore("abort", abort_at_once, NULL, preemptions + 2);
  explore("free", free_at_once, NULL, preemptions + 2);
  explore("start beside waits", start_beside, NULL, preemptions);
  explore("start beside starts", start_in_two_threads, NULL, preemptions + 1);
  explore_waits(requests, preemptions);
}

static void test_requests_end(void) {
  explore_all(1, 2);
  explore_all(2, 2);
  explore_waits(3, 1);
}

static void test_requests_end_after_a_failure(void) {
  given.dies = 1;
  explore_all(2, 1);
  given.dies = 2;
  explore_waits(3, 1);
  given.dies = 0;
}

static void test_requests_end_after_an_abort_in_a_hook(void) {
  given.hook_aborts = true;
  explore_all(2, 1);
  explore_waits(3, 1);
  given.hook_aborts = false;
}

static void test_requests_end_without_a_helper(void) {
  given.no_helper = true;
  explore_all(2, 2);
  given.no_helper = false;
}

static void test_requests_end_where_starts_wait(void) {
  given.starts_wait = true;
  explore_all(2, 1);
  given.hook_aborts = true;
  explore_all(2, 1);
  given.hook_aborts = false;
  given.no_helper = true;
  explore_all(3, 1);
  given.starts_wait = given.no_helper = false;
}

int main(int argc, char **argv) {
  interleavings_configure(argc, argv);
  RUN(test_requests_end);
  RUN(test_requests_end_after_a_failure);
  RUN(test_requests_end_after_an_abort_in_a_hook);
  RUN(test_requests_end_without_a_helper);
  RUN(test_requests_end_where_starts_wait);
  return 0;
}
