/* SPDX-License-Identifier: Apache-2.0
 *
 * An abort beside calls: of another thread, which makes short calls, waits in one, or waits for its requests
 * first; and of the thread itself, in a hook of its call.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "check.h"
#include "load.h"
#include "ranks.h"
#include "requests.h"

#define SOON 5 /* seconds; most aborts take 0.1 s, and calls in tests time out later than this */

typedef struct striker {
  ring_comm *comm;
  atomic_int begun; /* calls */
  atomic_bool struck;
} striker;

/* Aborts once the other thread is in its calls. */
static void *strike(void *arg) {
  striker *s = arg;
  while (atomic_load(&s->begun) == 0) usleep(1000);
  usleep(50000);
  double begun = seconds();
  ring_comm_abort(s->comm, "planned");
  CHECK(seconds() - begun < UNLOADED(SOON));
  CHECK_INT(ring_comm_usable(s->comm), 0);
  atomic_store(&s->struck, true);
  return NULL;
}

static void expect_planned(ring_comm *comm, ring_status status) {
  ranks_expect(comm, status, RING_ABORTED, 0, "aborted the communicator: planned");
}

/* The frames of rank 0 in its last barrier may be enough for that barrier. */
static ring_status pass_barriers(ring_comm *comm) {
  ring_status status = RING_OK;
  while (status == RING_OK) status = ring_barrier(comm);
  return status;
}

/* ---- Of another thread --------------------------------------------------------------------- */

static ring_status call_often(striker *s) {
  double data[200] = {0};
  ring_status status = RING_OK;
  for (double begun = seconds(); status == RING_OK && seconds() - begun < 2 * SOON;) {
    atomic_fetch_add(&s->begun, 1);
    status = ring_allreduce(s->comm, data, data, 200, RING_FLOAT64, RING_SUM);
  }
  return status;
}

static ring_status call_once(striker *s) {
  atomic_fetch_add(&s->begun, 1);
  return ring_barrier(s->comm);
}

/* The barrier waits for a request that the other rank never starts. */
static ring_status call_behind_request(striker *s) {
  ring_request *request;
  CHECK_INT(ring_barrier_start(s->comm, &request), RING_OK);
  atomic_fetch_add(&s->begun, 1);
  ring_status status = ring_barrier(s->comm);
  finish_badly(request, RING_ABORTED, 0, "planned");
  return status;
}

typedef struct struck {
  int arrived, ended;
  ring_status (*call)(striker *s);
  bool together; /* rank 1 makes the calls, too */
} struck;

static void be_struck(int rank, int size, void *shared) {
  struck *of = shared;
  striker s = {.comm = open_rank(rank, size)};
  pthread_t thread;
  ranks_barrier(&of->arrived, size);
  if (rank == 0) {
    CHECK_INT(pthread_create(&thread, NULL, strike, &s), 0);
    expect_planned(s.comm, of->call(&s));
    expect_planned(s.comm, ring_barrier(s.comm));
    pthread_join(thread, NULL);
    CHECK(atomic_load(&s.struck));
    __sync_fetch_and_add(&of->ended, 1);
  } else {
    if (!of->together) await_count(&of->ended, 1);
    expect_planned(s.comm, of->together ? call_often(&s) : pass_barriers(s.comm));
  }
  ring_comm_free(s.comm);
}

static void test_beside_short_calls(void) {
  for (int i = 0; i < 3; i++)
    RUN_RANKS(2, be_struck, (struck){.call = call_often, .together = true});
}

static void test_beside_a_call_that_waits(void) {
  RUN_RANKS(2, be_struck, (struck){.call = call_once});
}

static void test_beside_a_call_that_waits_for_requests(void) {
  RUN_RANKS(2, be_struck, (struck){.call = call_behind_request});
}

/* ---- In a hook ----------------------------------------------------------------------------- */

static ring_comm *hook_comm;

static int abort_hook(void *arg) {
  (void)arg;
  if (hook_comm == NULL) return 0;
  ring_comm_abort(hook_comm, "planned");
  CHECK_INT(ring_comm_usable(hook_comm), 0);
  CHECK_INT(ring_barrier(hook_comm), RING_ABORTED);
  hook_comm = NULL;
  return 0;
}

static void abort_own_call(int rank, int size, void *shared) {
  struck *of = shared;
  ring_options options = rank_options(rank, size);
  options.interrupt = abort_hook;
  ring_comm *comm = open_with(&options);
  ranks_barrier(&of->arrived, size);
  if (rank == 0) {
    double begun = seconds();
    hook_comm = comm;
    expect_planned(comm, ring_barrier(comm));
    CHECK(seconds() - begun < UNLOADED(SOON));
    __sync_fetch_and_add(&of->ended, 1);
  } else {
    await_count(&of->ended, 1);
    expect_planned(comm, pass_barriers(comm));
  }
  ring_comm_free(comm);
}

static void test_in_a_hook_of_its_call(void) {
  RUN_RANKS(2, abort_own_call, (struck){0});
}

int main(void) {
  RUN(test_beside_short_calls);
  RUN(test_beside_a_call_that_waits);
  RUN(test_beside_a_call_that_waits_for_requests);
  RUN(test_in_a_hook_of_its_call);
  return 0;
}
