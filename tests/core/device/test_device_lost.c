/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that are lost to a device: they die, stop, are late, or call something else (device_story.h).
 */
#include <signal.h>

#include "device_story.h"

/* The victim is killed while the other ranks wait for it. */
static void run_killed(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  ring_device *device = open_story(s, rank, size, &comm);
  void *memory = gpu_alloc(4 * COUNT);
  CHECK_INT(reduce_and_wait(device, memory), RING_OK);
  ranks_barrier(&s->met, size);
  if (rank == s->f.victim) {
    usleep(100000);
    raise(SIGKILL);
  }
  CHECK_INT(reduce_and_wait(device, memory), s->status);
  expect_failure(s, device, comm, memory);
}

static void test_a_rank_is_killed(void) {
  for (int path = RING_DEVICE_NCCL; path <= RING_DEVICE_HOST; path++) {
    for (int victim = 0; victim < RANKS; victim++) {
      char text[64];
      snprintf(text, sizeof text, "rank %d (127.0.0.1)", victim);
      RUN_WITH_VICTIM(RANKS, run_killed,
                      (story){.f.victim = victim,
                              .path = (ring_device_path)path,
                              .status = RING_PEER_LOST,
                              .fault = victim,
                              .text = text});
    }
  }
}

/* CUDA shuts down in the victim, as at the end of a process that has not freed its device. The watch thread does not
 * take that for a failure of the GPU. */
static void run_shut_down(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  ring_device *device = open_story(s, rank, size, &comm);
  void *memory = gpu_alloc(4 * COUNT);
  CHECK_INT(reduce_and_wait(device, memory), RING_OK);
  if (rank == s->f.victim) {
    CHECK_INT(setenv("CUDA_STUB_FAILS", "shutdown", 1), 0);
    CHECK_INT(ring_allreduce(on(device, NULL), memory, memory, COUNT, RING_INT32, RING_SUM),
              RING_OK);
    usleep(200000);
    raise(SIGKILL);
  }
  ring_status status = reduce_and_wait(device, memory);
  if (status == RING_OK) status = reduce_and_wait(device, memory);
  CHECK_INT(status, s->status);
  expect_failure(s, device, comm, memory);
}

static void test_cuda_shuts_down(void) {
  RUN_WITH_VICTIM(RANKS, run_shut_down,
                  (story){.f.victim = 1,
                          .path = RING_DEVICE_NCCL,
                          .status = RING_PEER_LOST,
                          .fault = 1,
                          .text = "rank 1 (127.0.0.1)"});
}

/* The victim stops until it is killed. Nothing but the call timeout finds that. */
static void run_stopped(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  ring_device *device = open_story(s, rank, size, &comm);
  void *memory = gpu_alloc(4 * COUNT);
  static pid_t *victim;
  victim = (pid_t *)&s->f.failed;
  if (rank == s->f.victim) *victim = getpid();
  ranks_barrier(&s->met, size);
  if (rank == s->f.victim) raise(SIGSTOP);
  CHECK_INT(reduce_and_wait(device, memory), s->status);
  ranks_barrier(&s->over, size - 1);
  expect_failure(s, device, comm, memory);
  kill(*victim, SIGKILL);
}

static void test_a_rank_is_stopped(void) {
  RUN_WITH_VICTIM(RANKS, run_stopped,
                  (story){.f.victim = 1,
                          .path = RING_DEVICE_NCCL,
                          .timeout = SOON,
                          .status = RING_TIMEOUT,
                          .fault = 1,
                          .text = "rank 1 (127.0.0.1) does not answer"});
  RUN_WITH_VICTIM(RANKS, run_stopped,
                  (story){.f.victim = 0,
                          .path = RING_DEVICE_NCCL,
                          .timeout = SOON,
                          .status = RING_TIMEOUT,
                          .fault = 0,
                          .text = "rank 0 (127.0.0.1) does not answer"});
}

/* Rank 1 does something else than call. */
static void run_late(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  ring_device *device = open_story(s, rank, size, &comm);
  void *memory = gpu_alloc(4 * COUNT);
  CHECK_INT(reduce_and_wait(device, memory), RING_OK);
  if (rank != 1) CHECK_INT(reduce_and_wait(device, memory), s->status);
  ranks_barrier(&s->over, size);
  while (ring_device_wait(device, NULL) == RING_OK) usleep(1000);
  expect_failure(s, device, comm, memory);
}

static void test_a_rank_is_late(void) {
  RUN_RANKS(RANKS, run_late,
            (story){.path = RING_DEVICE_NCCL,
                    .timeout = SOON,
                    .status = RING_TIMEOUT,
                    .fault = 1,
                    .text = "rank 1 (127.0.0.1) has not made that call; it has made 1"});
  RUN_RANKS(RANKS, run_late,
            (story){.path = RING_DEVICE_HOST,
                    .timeout = SOON,
                    .status = RING_TIMEOUT,
                    .fault = 1,
                    .text = "rank 1 (127.0.0.1"});
}

/* Rank 1 calls something else, with which NCCL hangs. */
static void run_mismatch(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  ring_device *device = open_story(s, rank, size, &comm);
  void *memory = gpu_alloc(4 * COUNT);
  ring_status status =
      rank == 1 ? ring_broadcast(on(device, NULL), memory, memory, COUNT, RING_INT32, 2)
                : ring_allreduce(on(device, NULL), memory, memory, COUNT, RING_INT32, RING_SUM);
  CHECK_INT(status, s->path == RING_DEVICE_NCCL ? RING_OK : s->status);
  CHECK_INT(ring_device_wait(device, NULL), s->status);
  CHECK_CONTAINS(ring_device_error(device)->message, "allreduce(count 1000, int32, sum)");
  expect_failure(s, device, comm, memory);
}

static void test_ranks_that_call_different_things(void) {
  RUN_RANKS(RANKS, run_mismatch,
            (story){.path = RING_DEVICE_NCCL,
                    .nccl_fails = "hang:-1:1",
                    .timeout = SOON,
                    .status = RING_MISMATCH,
                    .fault = ANYBODY,
                    .text = "broadcast(count 1000, int32, root 2)"});
  RUN_RANKS(RANKS, run_mismatch,
            (story){.path = RING_DEVICE_HOST,
                    .status = RING_MISMATCH,
                    .fault = ANYBODY,
                    .text = "broadcast(count 1000, int32, root 2)"});
}

/* Rank 1 makes its call through the host, the others by NCCL. */
static void run_paths(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  ring_device *device = open_story(s, rank, size, &comm);
  void *memory = gpu_alloc(4 * COUNT);
  ring_status status =
      rank == 1 ? ring_allreduce(on(device, NULL), memory, memory, COUNT, RING_BOOL, RING_LOR)
                : reduce_and_wait(device, memory);
  CHECK_INT(status, s->status);
  expect_failure(s, device, comm, memory);
}

static void test_a_rank_takes_another_path(void) {
  RUN_RANKS(RANKS, run_paths,
            (story){.path = RING_DEVICE_NCCL,
                    .timeout = SOON,
                    .status = RING_MISMATCH,
                    .fault = ANYBODY,
                    .text = "allreduce(count 1000, bool, lor)"});
}

/* A call through the host waits behind one of NCCL, which rank 1 does not make. */
static void run_behind(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  ring_device *device = open_story(s, rank, size, &comm);
  void *memory = gpu_alloc(4 * COUNT);
  CHECK_INT(reduce_and_wait(device, memory), RING_OK);
  if (rank != 1) {
    CHECK_INT(ring_allreduce(on(device, NULL), memory, memory, COUNT, RING_INT32, RING_SUM),
              RING_OK);
    CHECK_INT(ring_allreduce(on(device, NULL), memory, memory, COUNT, RING_BOOL, RING_LOR),
              s->status);
  }
  while (ring_device_wait(device, NULL) == RING_OK) usleep(1000);
  expect_failure(s, device, comm, memory);
}

static void test_the_host_waits_behind_nccl(void) {
  story s = {.path = RING_DEVICE_NCCL,
             .timeout = SOON,
             .status = RING_TIMEOUT,
             .fault = 1,
             .text = "rank 1 (127.0.0.1) has not made that call; it has made 1"};
  RUN_RANKS(RANKS, run_behind, s);
  s.cuda_fails = "register"; /* copies block, but not before the call of NCCL has ended */
  if (!gpu_is_real()) RUN_RANKS(RANKS, run_behind, s);
}

/* Rank 0 receives what rank 1 never sends. */
static void run_message(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  ring_device *device = open_story(s, rank, size, &comm);
  void *memory = gpu_alloc(4 * COUNT);
  if (rank == 0) {
    CHECK_INT(ring_recv(on(device, NULL), memory, COUNT, RING_INT32, 1), RING_OK);
    CHECK_INT(ring_device_wait(device, NULL), s->status);
  }
  ranks_barrier(&s->over, size);
  while (ring_device_wait(device, NULL) == RING_OK) usleep(1000);
  expect_failure(s, device, comm, memory);
}

static void test_a_message_that_never_comes(void) {
  RUN_RANKS(RANKS, run_message,
            (story){.path = RING_DEVICE_NCCL,
                    .timeout = SOON,
                    .status = RING_TIMEOUT,
                    .fault = 1,
                    .text = "to receive 1000 elements from rank 1 (127.0.0.1)"});
}

/* Rank 0 receives from rank 1, whose stream is behind a collective that does not end there. */
static void run_victim(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  ring_device *device = open_story(s, rank, size, &comm);
  void *memory = gpu_alloc(4 * COUNT);
  CHECK_INT(ring_broadcast(on(device, NULL), memory, memory, COUNT, RING_INT32, 0), RING_OK);
  if (rank == 0) CHECK_INT(ring_recv(on(device, NULL), memory, COUNT, RING_INT32, 1), RING_OK);
  if (rank == 1) CHECK_INT(ring_send(on(device, NULL), memory, COUNT, RING_INT32, 0), RING_OK);
  while (ring_device_wait(device, NULL) == RING_OK) usleep(1000);
  expect_failure(s, device, comm, memory);
}

static void test_a_peer_that_waits_is_not_at_fault(void) {
  RUN_RANKS(RANKS, run_victim,
            (story){.path = RING_DEVICE_NCCL,
                    .nccl_fails = "hang:1:1",
                    .timeout = SOON,
                    .status = RING_TIMEOUT,
                    .fault = NOBODY,
                    .text = "for broadcast(count 1000, int32, root 0) as call 1 on its GPU"});
}

/* Rank 1 is killed within NCCL's init. */
static void run_killed_in_init(int rank, int size, void *shared) {
  story *s = shared;
  ring_device *device;
  ring_comm *comm = open_rank(rank, size);
  use_gpu(rank);
  CHECK_INT(setenv("NCCL_STUB_FAILS", "die:1", 1), 0);
  const ring_device_options options = device_options(RING_DEVICE_AUTO);
  CHECK_INT(ring_device_open(comm, &options, &device), s->status);
  check_reason(s, ring_comm_error(comm));
  expect_no_leak();
  ring_comm_free(comm);
}

static void test_a_rank_is_killed_in_init(void) {
  RUN_WITH_VICTIM(
      RANKS, run_killed_in_init,
      (story){.f.victim = 1, .status = RING_PEER_LOST, .fault = 1, .text = "rank 1 (127.0.0.1)"});
}

int main(void) {
  RUN(test_a_rank_is_killed);
  RUN_ON_STUBS(test_cuda_shuts_down);
  RUN(test_a_rank_is_stopped);
  RUN(test_a_rank_is_late);
  RUN_ON_STUBS(test_ranks_that_call_different_things);
  RUN(test_a_rank_takes_another_path);
  RUN(test_the_host_waits_behind_nccl);
  RUN(test_a_message_that_never_comes);
  RUN_ON_STUBS(test_a_peer_that_waits_is_not_at_fault);
  RUN_ON_STUBS(test_a_rank_is_killed_in_init);
  return 0;
}
