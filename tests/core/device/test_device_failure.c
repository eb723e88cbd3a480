/* SPDX-License-Identifier: Apache-2.0
 *
 * Every failure of a device ends all ranks with an error that names the rank at fault: a rank that dies, stops, is
 * late or calls something else; work of NCCL that hangs; errors of NCCL and of the GPU; aborts and interrupts. Then
 * streams go on, later calls fail alike, and nothing is left. The patience of a wait is for a test that would hang.
 */
#include <signal.h>

#include "devices.h"
#include "load.h"
#include "victims.h"

enum { RANKS = 3, COUNT = 1000 };
enum { NOBODY = -1, ANYBODY = -2 }; /* at fault */
/* A call timeout that shall pass; NCCL begins within half of it. */
#define SOON (0.7 * load_stretch(8))

/* How rank 1, or the victim, fails, and what every other rank learns. */
typedef struct story {
  failing f; /* f.victim: a rank that is killed; -1: none */
  ring_device_path path;
  const char *nccl_fails, *cuda_fails;
  double timeout; /* 0: the usual one */
  ring_status status;
  int fault;
  const char *text;
  int met, over;
} story;

static ring_device *open_story(const story *s, int rank, int size, ring_comm **comm) {
  ring_options options = rank_options(rank, size);
  if (s->timeout > 0) options.call_timeout = s->timeout;
  *comm = open_with(&options);
  if (s->nccl_fails != NULL) CHECK_INT(setenv("NCCL_STUB_FAILS", s->nccl_fails, 1), 0);
  if (s->cuda_fails != NULL) CHECK_INT(setenv("CUDA_STUB_FAILS", s->cuda_fails, 1), 0);
  return open_device(*comm, s->path);
}

static void check_reason(const story *s, const ring_error *error) {
  if (error->status != s->status || (s->fault != ANYBODY && error->rank != s->fault))
    fprintf(stderr, "%s, rank %d: %s\n", ring_status_name(error->status), error->rank,
            error->message);
  CHECK_INT(error->status, s->status);
  if (s->fault != ANYBODY) CHECK_INT(error->rank, s->fault);
  CHECK_CONTAINS(error->message, s->text);
}

/* The device has failed: every call returns the reason, the stream goes on, and all is freed. */
static void expect_failure(story *s, ring_device *device, ring_comm *comm, void *memory) {
  int done;
  check_reason(s, ring_device_error(device));
  stream_rests(NULL);
  CHECK_INT(ring_allreduce(on(device, NULL), memory, memory, 1, RING_INT32, RING_SUM), s->status);
  CHECK_INT(ring_device_wait(device, NULL), s->status);
  CHECK_INT(ring_device_test(device, NULL, &done), s->status);
  CHECK_INT(ring_device_cast(device, memory, RING_FLOAT32, memory, RING_FLOAT32, 1, 1, NULL),
            s->status);
  CHECK_INT(ring_device_close(device), s->status);
  check_reason(s, ring_device_error(device));
  ring_device_free(device);
  gpu_free(memory);
  expect_no_leak();
  ring_comm_free(comm);
}

static ring_status reduce_and_wait(ring_device *device, void *memory) {
  ring_status status =
      ring_allreduce(on(device, NULL), memory, memory, COUNT, RING_INT32, RING_SUM);
  return status == RING_OK ? ring_device_wait(device, NULL) : status;
}

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

/* ---- Ranks that are lost, stopped or late -------------------------------------------------- */

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
  RUN(test_aborts);
  RUN(test_interrupts);
  RUN_ON_STUBS(test_failures_of_a_gpu);
  RUN(test_a_rank_does_not_close);
  RUN_ON_STUBS(test_nccl_that_does_not_end);
  return 0;
}
