/* SPDX-License-Identifier: Apache-2.0
 *
 * How ranks fail in shared memory: a rank dies, is stopped, is late, is interrupted or times out, asleep or
 * in the middle of a call. All other ranks fail within about a second with the name of the rank at fault. A
 * rank returns from a failed call once no other rank reads or writes its buffers.
 */
#include <signal.h>
#include <unistd.h>

#include "api/comm_state.h"
#include "buffers.h"
#include "check.h"
#include "leaks.h"
#include "load.h"
#include "shm/shm_failure.h"
#include "shm/sync.h"
#include "victims.h"

enum { LONG = 1500000 };

static void loop_until_it_fails(ring_comm *comm, failing *f, ring_status expected,
                                const char *text) {
  float *x = buffer_alloc(comm, f->arena, LONG * sizeof(float));
  ring_status status = RING_OK;
  while (status == RING_OK)
    status = ring_allreduce(comm, x, x, f->large ? LONG : 10, RING_FLOAT32, RING_SUM);
  expect_end(comm, status, expected, f->victim, text);
  buffer_free(x, f->arena);
  CHECK(!arena_is_mapped());
}

static void be_killed(int rank, int size, void *shared) {
  failing *f = shared;
  ring_comm *comm = open_rank(rank, size);
  ranks_barrier(&f->arrived, size);
  if (rank == f->victim) {
    be_killed_soon(f);
    float *x = buffer_alloc(comm, f->arena, LONG * sizeof(float));
    for (;;) ring_allreduce(comm, x, x, f->large ? LONG : 10, RING_FLOAT32, RING_SUM);
  }
  loop_until_it_fails(comm, f, RING_PEER_LOST, "was lost during allreduce");
  CHECK(seconds() - f->since < UNLOADED(1.5));
}

static void test_killed_in_the_middle(void) {
  for (int victim = 0; victim < 3; victim++) {
    RUN_WITH_VICTIM(3, be_killed, (failing){.victim = victim});
    RUN_WITH_VICTIM(3, be_killed, (failing){.victim = victim, .arena = true, .large = true});
    RUN_WITH_VICTIM(3, be_killed, (failing){.victim = victim, .large = true});
  }
}

/* The victim sleeps in a call to which rank 0 does not come. Its child outlives it. */
static void be_killed_asleep(int rank, int size, void *shared) {
  failing *f = shared;
  ring_comm *comm = open_rank(rank, size);
  if (rank == f->victim && fork() == 0) {
    sleep(4);
    _exit(0);
  }
  ranks_barrier(&f->arrived, size);
  if (rank == f->victim) {
    be_killed_soon(f);
  }
  if (rank == 0) usleep(400000);
  double begun = seconds();
  ring_status status = ring_barrier(comm); /* the victim has come to this call */
  if (status == RING_OK) status = ring_barrier(comm);
  CHECK(seconds() - begun < UNLOADED(3));
  expect_end(comm, status, RING_PEER_LOST, f->victim, "its process has ended");
}

static void test_killed_asleep(void) {
  RUN_WITH_VICTIM(3, be_killed_asleep, (failing){.victim = 1});
}

/* Rank 0 computes for long. Rank 1, which waits for rank 0, detects that rank 2 has died. With
 * `large` rank 2 has come to the call and waits for rank 0, too. */
static void see_another_die(int rank, int size, void *shared) {
  failing *f = shared;
  ring_comm *comm = open_rank(rank, size);
  ranks_barrier(&f->arrived, size);
  if (rank == 2 && !f->large) raise(SIGKILL);
  if (rank == 2) {
    be_killed_soon(f);
  }
  if (rank == 0) sleep(3);
  double begun = seconds();
  ring_status status = ring_barrier(comm);
  CHECK(seconds() - begun < UNLOADED(2.8));
  expect_end(comm, status, RING_PEER_LOST, 2, "rank 2 (127.0.0.1) was lost during barrier");
}

static void test_a_death_shows_to_all_who_wait(void) {
  RUN_WITH_VICTIM(3, see_another_die, (failing){.victim = 2});
  RUN_WITH_VICTIM(3, see_another_die, (failing){.victim = 2, .large = true});
}

static void be_stopped(int rank, int size, void *shared) {
  failing *f = shared;
  ring_options options = rank_options(rank, size);
  options.call_timeout = 0.7;
  ring_comm *comm = open_with(&options);
  ranks_barrier(&f->arrived, size);
  if (rank != f->victim) {
    loop_until_it_fails(comm, f, RING_TIMEOUT, "; last seen in");
    return;
  }
  pid_t waker = fork();
  if (waker == 0) {
    usleep(50000);
    kill(getppid(), SIGSTOP);
    sleep(4);
    kill(getppid(), SIGKILL);
    _exit(0);
  }
  float *x = buffer_alloc(comm, f->arena, LONG * sizeof(float));
  while (ring_allreduce(comm, x, x, f->large ? LONG : 10, RING_FLOAT32, RING_SUM) == RING_OK)
    continue;
  pause();
}

static void test_stopped_in_the_middle(void) {
  RUN_WITH_VICTIM(3, be_stopped, (failing){.victim = 1, .arena = true, .large = true});
}

static void miss_the_deadline(int rank, int size, void *shared) {
  failing *f = shared;
  ring_options options = rank_options(rank, size);
  options.call_timeout = 1;
  ring_comm *comm = open_with(&options);
  ranks_barrier(&f->arrived, size);
  double begun = seconds();
  while (rank == f->victim && *(volatile int *)&f->failed < size - 1) usleep(1000);
  float *x = buffer_alloc(comm, f->arena, LONG * sizeof(float));
  ring_status status = ring_broadcast(comm, x, x, f->large ? LONG : 10, RING_FLOAT32, 2);
  __sync_fetch_and_add(&f->failed, 1);
  CHECK(seconds() - begun < UNLOADED(5));
  if (rank == f->victim)
    expect_end(comm, status, RING_ABORTED, rank, "peers timed out waiting for this rank");
  else
    expect_end(comm, status, RING_TIMEOUT, f->victim, "for rank 2 (127.0.0.1; last seen in");
  buffer_free(x, f->arena);
}

static void test_deadlines(void) {
  for (int large = 0; large < 2; large++) {
    RUN_RANKS(3, miss_the_deadline, (failing){.victim = 2, .arena = large, .large = large});
  }
}

/* A negative count is left alone: open() calls the hook, too. */
static int interrupt_the_third_time(void *arg) {
  int *asked = arg;
  return *asked >= 0 && ++*asked == 3;
}

static void be_interrupted(int rank, int size, void *shared) {
  failing *f = shared;
  int asked = -1;
  ring_options options = rank_options(rank, size);
  if (rank == f->victim) {
    options.interrupt = interrupt_the_third_time;
    options.interrupt_arg = &asked;
  }
  ring_comm *comm = open_with(&options);
  ranks_barrier(&f->arrived, size);
  asked = 0;
  if (rank == 0) ranks_barrier(&f->over, 2); /* comes once the victim has left */
  ring_status status = ring_barrier(comm);
  if (rank == f->victim) ranks_barrier(&f->over, 2);
  if (rank == f->victim) CHECK_INT(asked, 3);
  expect_end(comm, status, RING_ABORTED, f->victim, "rank 1 was interrupted during");
}

/* Ends while the other ranks sleep: by an abort, or freed without close. */
static void end_early(int rank, int size, void *shared) {
  failing *f = shared;
  ring_comm *comm = open_rank(rank, size);
  ranks_barrier(&f->arrived, size);
  if (rank == f->victim) {
    usleep(150000);
    f->since = seconds();
    if (f->large) ring_comm_abort(comm, "no more data");
    ring_comm_free(comm);
    return;
  }
  float x[10] = {0};
  ring_status status = ring_allreduce(comm, x, x, 10, RING_FLOAT32, RING_SUM);
  CHECK(seconds() - f->since < UNLOADED(2));
  expect_end(comm, status, RING_ABORTED, f->victim,
             f->large ? "no more data" : "it dropped it without closing it");
}

static void test_interrupts_and_aborts(void) {
  RUN_RANKS(3, be_interrupted, (failing){.victim = 1});
  RUN_RANKS(3, end_early, (failing){.victim = 2, .large = true});
  RUN_RANKS(3, end_early, (failing){0});
}

/* The root fails while the other ranks are in the middle of a large broadcast. It returns once they
 * no longer use its buffer. */
static void give_up_while_read(int rank, int size, void *shared) {
  atomic_int *left = shared;
  ring_options options = rank_options(rank, size);
  options.call_timeout = 1;
  ring_comm *comm = open_with(&options);
  if (rank == 0) {
    float *x = buffer_alloc(comm, true, LONG * sizeof(float));
    CHECK_INT(ring_broadcast(comm, x, x, LONG, RING_FLOAT32, 0), RING_TIMEOUT);
    CHECK_INT(atomic_load(left), 2);
    ring_free(x);
  } else {
    ring_call call = {.collective = RING_COLLECTIVE_BROADCAST,
                      .dtype = RING_FLOAT32,
                      .count = LONG,
                      .sequence = comm->sequence + 1};
    ring_wait wait;
    ring_error error;
    ring_shm_call begun;
    ring_wait_init(&wait, 10, NULL, NULL);
    CHECK_INT(ring_shm_begin(&comm->shm, &call, RING_SLOTS, &wait, &error, &begun), RING_OK);
    ring_shm_publish(&begun);
    while (!ring_shm_failed(&comm->shm, NULL, &error)) usleep(1000);
    usleep(350000); /* the failure takes 0.2 s to spread; the root waits for 0.5 s */
    atomic_fetch_add(left, 1);
    ring_shm_finish(&begun);
  }
  ring_comm_free(comm);
}

static void test_buffers_are_left_alone_after_a_failure(void) {
  RUN_RANKS(3, give_up_while_read, (atomic_int[16]){0});
}

int main(void) {
  RUN(test_killed_in_the_middle);
  RUN(test_killed_asleep);
  RUN(test_a_death_shows_to_all_who_wait);
  RUN(test_stopped_in_the_middle);
  RUN(test_deadlines);
  RUN(test_interrupts_and_aborts);
  RUN(test_buffers_are_left_alone_after_a_failure);
  return 0;
}
