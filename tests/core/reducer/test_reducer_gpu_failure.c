/* SPDX-License-Identifier: Apache-2.0
 *
 * Every failure of a reducer's device ends the reducer on all ranks, with an error that names the rank at fault: errors
 * of NCCL and of the GPU in a fused reduction, work that hangs, ranks that die, aborts and interrupts. Then no memory is
 * in use, later submissions fail alike, and nothing is left.
 */
#include <signal.h>

#include "gpu_reducers.h"
#include "load.h"
#include "victims.h"

enum { RANKS = 3, TENSORS = 5 };
#define SOON (0.7 * load_stretch(8))
static const int64_t count = 1000;

/* How rank 1, or the victim, fails, and what every other rank learns. */
typedef struct story {
  failing f; /* f.victim: a rank that is killed; -1: none */
  ring_device_path path;
  const char *nccl_fails, *cuda_fails;
  double timeout; /* 0: the usual one */
  ring_status status;
  int fault; /* -1: none is checked */
  const char *text;
  int met, over;
} story;

typedef struct tensors {
  float *memory[TENSORS];
  ring_submission *submissions[TENSORS];
} tensors;

static ring_reducer *open_story(const story *s, int rank, int size, ring_comm **comm) {
  ring_options options = rank_options(rank, size);
  if (s->timeout > 0) options.call_timeout = s->timeout;
  *comm = open_with(&options);
  if (s->nccl_fails != NULL) CHECK_INT(setenv("NCCL_STUB_FAILS", s->nccl_fails, 1), 0);
  if (s->cuda_fails != NULL && rank == 1) CHECK_INT(setenv("CUDA_STUB_FAILS", s->cuda_fails, 1), 0);
  return gpu_reducer_of(*comm, s->path);
}

/* The first operation opens the device, as call 1. It is one buffer, for which no kernel is launched. */
static void begin_story(story *s, ring_reducer *reducer, int size) {
  float *memory = gpu_floats(1, 1);
  static const int64_t one = 1;
  const ring_operation operation = gpu_sum_of("first", memory, &one);
  finish_well(submit(reducer, &operation));
  gpu_free(memory);
  ranks_barrier(&s->met, size);
}

/* Groups, which a kernel packs even if one travels alone. A failure may come before the last one. */
static void submit_tensors(ring_reducer *reducer, tensors *t) {
  char name[16];
  for (int i = 0; i < TENSORS; i++) {
    snprintf(name, sizeof name, "tensor.%d", i);
    t->memory[i] = gpu_floats(count, 1);
    const ring_buffer buffers[2] = {{t->memory[i], t->memory[i], 400},
                                    {t->memory[i] + 500, t->memory[i] + 500, 500}};
    ring_operation operation = gpu_sum_of(name, NULL, NULL);
    operation.kind = RING_OPERATION_ALLREDUCE_GROUP;
    operation.dimensions = 0;
    operation.buffers = buffers;
    operation.buffer_count = 2;
    if (ring_reducer_submit(reducer, &operation, &t->submissions[i]) != RING_OK)
      CHECK(i > 0 && t->submissions[i] == NULL);
  }
}

static void check_reason(const story *s, const ring_error *error) {
  if (error->status != s->status || (s->fault >= 0 && error->rank != s->fault) ||
      strstr(error->message, s->text) == NULL)
    fprintf(stderr, "%s, rank %d: %s\n", ring_status_name(error->status), error->rank,
            error->message);
  CHECK_INT(error->status, s->status);
  if (s->fault >= 0) CHECK_INT(error->rank, s->fault);
  CHECK_CONTAINS(error->message, s->text);
}

/* Every submission has the reason, and so has a later one; streams go on, and all is freed. */
static void expect_failure(story *s, ring_reducer *reducer, ring_comm *comm, tensors *t) {
  ring_submission *late;
  for (int i = 0; i < TENSORS && t->submissions[i] != NULL; i++) {
    CHECK_INT(ring_submission_wait(t->submissions[i]), s->status);
    check_reason(s, ring_submission_error(t->submissions[i]));
    ring_submission_free(t->submissions[i]);
  }
  const ring_operation operation = gpu_sum_of("late", t->memory[0], &count);
  CHECK_INT(ring_reducer_submit(reducer, &operation, &late), s->status);
  check_reason(s, ring_reducer_error(reducer));
  for (int i = 0; i < TENSORS; i++) gpu_free(t->memory[i]);
  end_gpu_reducer(reducer, s->status);
  ring_comm_free(comm);
}

/* ---- Errors of NCCL and of the GPU --------------------------------------------------------- */

static void run_errors(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  tensors t;
  ring_reducer *reducer = open_story(s, rank, size, &comm);
  begin_story(s, reducer, size);
  submit_tensors(reducer, &t);
  expect_failure(s, reducer, comm, &t);
}

static void test_errors_of_nccl(void) {
  RUN_RANKS(RANKS, run_errors,
            (story){.nccl_fails = "async:1:2",
                    .status = RING_SYSTEM,
                    .fault = 1,
                    .text = " failed with 3 (internal error)"});
  RUN_RANKS(RANKS, run_errors,
            (story){.nccl_fails = "refuse:1:2",
                    .status = RING_SYSTEM,
                    .fault = 1,
                    .text = "rank 1 (127.0.0.1): allreduce failed with 5 (invalid usage"});
  RUN_RANKS(RANKS, run_errors,
            (story){.nccl_fails = "later:1:2",
                    .status = RING_SYSTEM,
                    .fault = 1,
                    .text = "rank 1 (127.0.0.1): "});
}

static void test_work_that_hangs(void) {
  RUN_RANKS(RANKS, run_errors,
            (story){.nccl_fails = "hang:1:2",
                    .timeout = SOON,
                    .status = RING_TIMEOUT,
                    .fault = -1,
                    .text = "every rank has made the call"});
}

static void test_failures_of_a_gpu(void) {
  for (int path = RING_DEVICE_NCCL; path <= RING_DEVICE_HOST; path++)
    RUN_RANKS(RANKS, run_errors,
              (story){.path = (ring_device_path)path,
                      .cuda_fails = "launch",
                      .status = RING_SYSTEM,
                      .fault = 1,
                      .text = "rank 1 (127.0.0.1): kernels of sparkring failed with 719"});
}

/* ---- Ranks that die ------------------------------------------------------------------------ */

/* The victim is killed: by NCCL while a fused reduction of all ranks is under way, else before it. */
static void run_killed(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  tensors t;
  ring_reducer *reducer = open_story(s, rank, size, &comm);
  begin_story(s, reducer, size);
  if (rank == s->f.victim) {
    if (s->path == RING_DEVICE_NCCL) submit_tensors(reducer, &t);
    usleep(100000);
    raise(SIGKILL);
  }
  submit_tensors(reducer, &t);
  expect_failure(s, reducer, comm, &t);
}

static void test_a_rank_is_killed(void) {
  for (int path = RING_DEVICE_NCCL; path <= RING_DEVICE_HOST; path++) {
    for (int victim = 0; victim < RANKS; victim++) {
      char text[64];
      snprintf(text, sizeof text, "rank %d (127.0.0.1)", victim);
      RUN_WITH_VICTIM(RANKS, run_killed,
                      (story){.f.victim = victim,
                              .path = (ring_device_path)path,
                              .nccl_fails = "hang:-1:2",
                              .status = RING_PEER_LOST,
                              .fault = victim,
                              .text = text});
    }
  }
}

/* ---- Aborts and interrupts ----------------------------------------------------------------- */

/* Rank 1 aborts its reducer while a reduction hangs. */
static void run_abort(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  tensors t;
  ring_reducer *reducer = open_story(s, rank, size, &comm);
  begin_story(s, reducer, size);
  submit_tensors(reducer, &t);
  usleep(200000); /* into the cycle of the progress thread */
  if (rank == 1) ring_reducer_abort(reducer, "the batch is empty");
  if (rank == 1) s->text = "the batch is empty";
  expect_failure(s, reducer, comm, &t);
}

static void test_aborts(void) {
  RUN_RANKS(2, run_abort,
            (story){.nccl_fails = "hang:-1:2", .status = RING_ABORTED, .fault = -1, .text = ""});
}

static int interrupts(void *arg) {
  const story *s = arg;
  return __atomic_load_n(&s->over, __ATOMIC_SEQ_CST) == RANKS;
}

/* The user of rank 0 interrupts its wait. */
static void run_interrupt(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  tensors t;
  ring_options options = rank_options(rank, size);
  options.interrupt = rank == 0 ? interrupts : NULL;
  options.interrupt_arg = s;
  comm = open_with(&options);
  CHECK_INT(setenv("NCCL_STUB_FAILS", s->nccl_fails, 1), 0);
  ring_reducer *reducer = gpu_reducer_of(comm, s->path);
  begin_story(s, reducer, size);
  submit_tensors(reducer, &t);
  __atomic_fetch_add(&s->over, 1, __ATOMIC_SEQ_CST);
  expect_failure(s, reducer, comm, &t);
}

static void test_interrupts(void) {
  RUN_RANKS(
      RANKS, run_interrupt,
      (story){.nccl_fails = "hang:-1:2", .status = RING_ABORTED, .fault = 0, .text = "rank 0"});
}

/* Rank 1 frees its reducer, which aborts it, and its device. */
static void run_freed(int rank, int size, void *shared) {
  story *s = shared;
  ring_comm *comm;
  tensors t;
  ring_reducer *reducer = open_story(s, rank, size, &comm);
  begin_story(s, reducer, size);
  if (rank == 1) {
    await_count(&s->over, size - 1);
    ring_reducer_free(reducer);
    expect_no_leak();
    ring_comm_free(comm);
    return;
  }
  submit_tensors(reducer, &t);
  __atomic_fetch_add(&s->over, 1, __ATOMIC_SEQ_CST);
  expect_failure(s, reducer, comm, &t);
}

static void test_a_reducer_that_is_freed(void) {
  for (int path = RING_DEVICE_NCCL; path <= RING_DEVICE_HOST; path++)
    RUN_RANKS(RANKS, run_freed,
              (story){.path = (ring_device_path)path,
                      .status = RING_ABORTED,
                      .fault = 1,
                      .text = "a rank has freed its reducer without closing it"});
}

int main(void) {
  RUN_ON_STUBS(test_errors_of_nccl);
  RUN_ON_STUBS(test_work_that_hangs);
  RUN_ON_STUBS(test_failures_of_a_gpu);
  RUN_ON_STUBS(test_a_rank_is_killed);
  RUN_ON_STUBS(test_aborts);
  RUN_ON_STUBS(test_interrupts);
  RUN(test_a_reducer_that_is_freed);
  return 0;
}
