/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures of a device: errors of NCCL and of the GPU, work of NCCL that hangs, aborts and interrupts (device_story.h).
 */
#include "device_story.h"

/* All ranks make two calls. */
static void run_calls(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  ring_device *device = open_story(s, rank, size, &comm);
  void *memory = gpu_alloc(4 * COUNT);
  ranks_barrier(&s->met, size);
  ring_status status = reduce_and_wait(device, memory);
  if (status == RING_OK) status = reduce_and_wait(device, memory);
  CHECK_INT(status, s->status);
  expect_failure(s, device, comm, memory);
}

static void test_work_that_hangs(void) {
  RUN_RANKS(RANKS, run_calls,
            (story){.nccl_fails = "hang:1:2",
                    .timeout = SOON,
                    .status = RING_TIMEOUT,
                    .fault = NOBODY,
                    .text =
                        "allreduce(count 1000, int32, sum) as call 2 on its GPU: every rank has "
                        "made the call"});
  RUN_RANKS(1, run_calls,
            (story){.nccl_fails = "hang:0:1",
                    .timeout = SOON,
                    .status = RING_TIMEOUT,
                    .fault = NOBODY,
                    .text = "rank 0 (127.0.0.1) waited"});
}

/* NCCL never launches the call, as where a first connection is not made. */
static void test_a_call_that_stays_in_progress(void) {
  RUN_RANKS(RANKS, run_calls,
            (story){.nccl_fails = "stuck:1:2",
                    .timeout = SOON,
                    .status = RING_TIMEOUT,
                    .fault = NOBODY,
                    .text = "every rank has made the call"});
}

static void test_errors_of_nccl(void) {
  RUN_RANKS(RANKS, run_calls,
            (story){.nccl_fails = "async:1:2",
                    .status = RING_SYSTEM,
                    .fault = 1,
                    .text = " failed with 3 (internal error)"});
  RUN_RANKS(RANKS, run_calls,
            (story){.nccl_fails = "refuse:1:2",
                    .status = RING_SYSTEM,
                    .fault = 1,
                    .text = "rank 1 (127.0.0.1): allreduce failed with 5 (invalid usage"});
  RUN_RANKS(RANKS, run_calls,
            (story){.nccl_fails = "later:1:2",
                    .status = RING_SYSTEM,
                    .fault = 1,
                    .text = "rank 1 (127.0.0.1): "});
}

/* ---- Ranks that give up --------------------------------------------------------------------- */

/* Rank 1 aborts, or frees, while the other ranks wait for it. */
static void run_abort(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  ring_device *device = open_story(s, rank, size, &comm);
  void *memory = gpu_alloc(4 * COUNT);
  CHECK_INT(reduce_and_wait(device, memory), RING_OK);
  bool frees = strstr(s->text, "freed") != NULL;
  ranks_barrier(&s->met, size);
  if (rank == 1 && frees) {
    ring_device_free(device);
    gpu_free(memory);
    expect_no_leak();
    ring_comm_free(comm);
    return;
  }
  if (rank == 1) ring_device_abort(device, "no more data");
  CHECK_INT(reduce_and_wait(device, memory), s->status);
  expect_failure(s, device, comm, memory);
}

static void test_aborts(void) {
  for (int path = RING_DEVICE_NCCL; path <= RING_DEVICE_HOST; path++) {
    RUN_RANKS(RANKS, run_abort,
              (story){.path = (ring_device_path)path,
                      .status = RING_ABORTED,
                      .fault = 1,
                      .text = "rank 1 (127.0.0.1) aborted its device: no more data"});
    RUN_RANKS(RANKS, run_abort,
              (story){.path = (ring_device_path)path,
                      .status = RING_ABORTED,
                      .fault = 1,
                      .text = "rank 1 (127.0.0.1) aborted its device: it freed the device"});
  }
}

static int interrupts(void *arg) {
  const story *s = arg;
  return __atomic_load_n(&s->over, __ATOMIC_SEQ_CST);
}

/* The user of rank 0 interrupts a wait. */
static void run_interrupt(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  ring_options options = rank_options(rank, size);
  options.interrupt = rank == 0 ? interrupts : NULL;
  options.interrupt_arg = s;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  ring_device *device = open_device(comm, s->path);
  void *memory = gpu_alloc(4 * COUNT);
  ranks_barrier(&s->met, size);
  if (rank != 1) {
    if (rank == 0) __atomic_store_n(&s->over, 1, __ATOMIC_SEQ_CST);
    CHECK_INT(reduce_and_wait(device, memory), s->status);
  }
  while (ring_device_wait(device, NULL) == RING_OK) usleep(1000);
  expect_failure(s, device, comm, memory);
}

static void test_interrupts(void) {
  for (int path = RING_DEVICE_NCCL; path <= RING_DEVICE_HOST; path++)
    RUN_RANKS(RANKS, run_interrupt,
              (story){.path = (ring_device_path)path,
                      .status = RING_ABORTED,
                      .fault = 0,
                      .text = "rank 0 was interrupted"});
}

/* ---- The GPU ------------------------------------------------------------------------------- */

/* A copy, or a launch, fails on rank 1 while the other ranks wait for it. */
static void run_gpu_fails(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  ring_device *device = open_story(s, rank, size, &comm);
  void *memory = gpu_alloc(4 * COUNT);
  const ring_buffer buffers[2] = {{memory, memory, 1},
                                  {(char *)memory + 512, (char *)memory + 512, 1}};
  ranks_barrier(&s->met, size);
  if (rank == 1)
    CHECK_INT(setenv("CUDA_STUB_FAILS", strstr(s->text, "kernels") ? "launch" : "copy", 1), 0);
  ring_status status = ring_device_allreduce_group(device, buffers, 2, RING_FLOAT32, RING_FLOAT32,
                                                   RING_SUM, 1, 1, NULL);
  if (status == RING_OK) status = ring_device_wait(device, NULL);
  CHECK_INT(status, s->status);
  expect_failure(s, device, comm, memory);
}

static void test_failures_of_a_gpu(void) {
  RUN_RANKS(RANKS, run_gpu_fails,
            (story){.path = RING_DEVICE_HOST,
                    .status = RING_SYSTEM,
                    .fault = 1,
                    .text = "rank 1 (127.0.0.1): a copy from the GPU failed with 719"});
  for (int path = RING_DEVICE_NCCL; path <= RING_DEVICE_HOST; path++)
    RUN_RANKS(RANKS, run_gpu_fails,
              (story){.path = (ring_device_path)path,
                      .status = RING_SYSTEM,
                      .fault = 1,
                      .text = "rank 1 (127.0.0.1): kernels of sparkring failed with 719"});
}

/* Rank 1 does not close. */
static void run_unclosed(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  ring_device *device = open_story(s, rank, size, &comm);
  void *memory = gpu_alloc(4 * COUNT);
  if (rank != 1) CHECK_INT(ring_device_close(device), s->status);
  ranks_barrier(&s->over, size);
  while (ring_device_wait(device, NULL) == RING_OK) usleep(1000);
  expect_failure(s, device, comm, memory);
}

static void test_a_rank_does_not_close(void) {
  for (int path = RING_DEVICE_NCCL; path <= RING_DEVICE_HOST; path++)
    RUN_RANKS(RANKS, run_unclosed,
              (story){.path = (ring_device_path)path,
                      .timeout = SOON,
                      .status = RING_TIMEOUT,
                      .fault = 1,
                      .text = "for rank 1 (127.0.0.1; last seen"});
}

/* The GPU does not end: what it may use stays, and nothing waits for ever. */
static void run_leak(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  ring_device *device = open_story(s, rank, size, &comm);
  void *memory = gpu_alloc(4 * COUNT);
  CHECK_INT(ring_allreduce(on(device, NULL), memory, memory, COUNT, RING_INT32, RING_SUM),
            s->status);
  check_reason(s, ring_device_error(device));
  CHECK_INT(ring_device_close(device), s->status);
  gpu_free(memory);
  ring_device_free(device);
  CHECK_CONTAINS(ring_device_error(NULL)->message, "memory of the device is not freed");
  CHECK(gpu.live() > gpu.at_first);
  CHECK_INT(ring_barrier(comm), RING_OK); /* which goes on */
  close_rank(comm);
}

static void test_nccl_that_does_not_end(void) {
  RUN_RANKS(1, run_leak,
            (story){.nccl_fails = "abort:0:1",
                    .status = RING_SYSTEM,
                    .text = "allreduce failed with 5 (invalid usage"});
}

int main(void) {
  RUN_ON_STUBS(test_work_that_hangs);
  RUN_ON_STUBS(test_a_call_that_stays_in_progress);
  RUN_ON_STUBS(test_errors_of_nccl);
  RUN(test_aborts);
  RUN(test_interrupts);
  RUN_ON_STUBS(test_failures_of_a_gpu);
  RUN(test_a_rank_does_not_close);
  RUN_ON_STUBS(test_nccl_that_does_not_end);
  return 0;
}
