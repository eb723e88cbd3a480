/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that ranks lack: warnings, deadlines, and what works afterwards.
 */
#include <stdatomic.h>
#include <unistd.h>

#include "reducers.h"

static void note_log(void *arg, const char *message) {
  snprintf(arg, 2000, "%s", message);
}

/* Rank 1 misses "lost", and rank 0 "other". */
static void run_stalled(int rank, int size, void *shared) {
  static char log[2000];
  static const int64_t one = 1;
  float value = 1;
  ring_options options = rank_options(rank, size);
  ring_reducer_options stalls = RING_REDUCER_OPTIONS_INIT;
  options.warn_after = 0.2;
  options.log = note_log;
  options.log_arg = log;
  stalls.stall_timeout = 1;
  ring_comm *comm = open_with(&options);
  ring_reducer *reducer = reducer_of(comm, &stalls);
  ring_operation operation = sum_of(rank == 1 ? "other" : "lost", &value, &one);
  finish_with(submit(reducer, &operation), RING_TIMEOUT,
              rank == 1 ? "s for rank 0 (127.0.0.1), rank 2 (127.0.0.1)"
                        : "s for rank 1 (127.0.0.1)");
  expect_works(reducer, "fine", size);
  CHECK_CONTAINS(log, rank == 1 ? "tensor \"other\" has waited" : "tensor \"lost\" has waited");
  ranks_barrier(shared, size);
  expect_works(reducer, "lost", size);
  end_reducer(reducer);
  close_rank(comm);
}

static void test_stalls_name_tensors_and_ranks(void) {
  int *arrived = shared_alloc(sizeof *arrived);
  run_ranks(3, run_stalled, arrived);
  shared_free(arrived, sizeof *arrived);
}

/* Ranks 0 and 1 differ under a name, and submit it again; rank 2 never does. The deadline is that of calls. */
static void run_stalled_again(int rank, int size, void *shared) {
  static const int64_t one = 1;
  float value = 1;
  ring_options options = rank_options(rank, size);
  options.call_timeout = 3;
  ring_comm *comm = open_with(&options);
  ring_reducer *reducer = reducer_of(comm, NULL);
  ring_operation operation = sum_of("x", &value, &one);
  if (rank < 2) {
    if (rank == 1) operation.op = RING_MIN;
    ring_submission *differs = submit(reducer, &operation);
    expect_works(reducer, "y", size);
    finish_with(differs, RING_MISMATCH, "[1], min");
    ring_submission *again = submit(reducer, &operation);
    finish_with(again, RING_TIMEOUT, "s for rank 2 (127.0.0.1): submit it on all ranks");
  } else {
    expect_works(reducer, "y", size);
    usleep(1500000);
  }
  expect_works(reducer, "z", size); /* rank 2 waits here, and so takes part in cycles */
  ranks_barrier(shared, size);
  expect_works(reducer, "x", size);
  end_reducer(reducer);
  close_rank(comm);
}

static void test_a_name_that_has_failed_stalls_as_others(void) {
  int *arrived = shared_alloc(sizeof *arrived);
  run_ranks(3, run_stalled_again, arrived);
  shared_free(arrived, sizeof *arrived);
}

/* This rank learns late which names the ranks lack, if it is set: the other ranks go on before. */
static atomic_bool compares_late;

ring_status __real_ring_allgather(ring_comm *comm, const void *input, void *output, size_t count,
                                  ring_dtype dtype);
ring_status __wrap_ring_allgather(ring_comm *comm, const void *input, void *output, size_t count,
                                  ring_dtype dtype);
ring_status __wrap_ring_allgather(ring_comm *comm, const void *input, void *output, size_t count,
                                  ring_dtype dtype) {
  ring_status status = __real_ring_allgather(comm, input, output, count, dtype);
  if (dtype == RING_UINT64 && atomic_load(&compares_late)) usleep(300000);
  return status;
}

/* Ranks 1 and 2 submit nothing until rank 0's name has failed. Rank 1 submits it before it learns that. Ranks with long
 * deadlines follow rank 0's. */
static void run_idle(int rank, int size, void *shared) {
  static const int64_t one = 1;
  float value = 1;
  ring_options options = rank_options(rank, size);
  ring_comm *comm = open_with(&options);
  ring_reducer_options stalls = RING_REDUCER_OPTIONS_INIT;
  stalls.stall_timeout = rank == 0 ? 0.5 : RING_NEVER;
  ring_reducer *reducer = reducer_of(comm, &stalls);
  ring_operation operation = sum_of("lost", &value, &one);
  atomic_store(&compares_late, rank == 1);
  for (int i = 0; i < 2 && rank == 0; i++)
    finish_with(submit(reducer, &operation), RING_TIMEOUT,
                "s for rank 1 (127.0.0.1), rank 2 (127.0.0.1): submit it on all ranks");
  ranks_barrier(shared, size);
  expect_works(reducer, "lost", size);
  end_reducer(reducer);
  close_rank(comm);
}

static void test_ranks_without_submissions_are_stalled_for(void) {
  int *arrived = shared_alloc(sizeof *arrived);
  run_ranks(3, run_idle, arrived);
  shared_free(arrived, sizeof *arrived);
}

/* Rank 1 submits nothing for a while. */
static void run_absent(int rank, int size, void *shared) {
  (void)shared;
  static char log[2000];
  ring_options options = rank_options(rank, size);
  options.warn_after = 0.2;
  options.log = note_log;
  options.log_arg = log;
  ring_comm *comm = open_with(&options);
  ring_reducer *reducer = reducer_of(comm, NULL);
  if (rank == 1) usleep(900000);
  expect_works(reducer, "x", size);
  if (rank == 0) CHECK_CONTAINS(log, "the reducer waits with \"x\": ");
  if (rank == 0) CHECK_CONTAINS(log, "rank 1");
  end_reducer(reducer);
  close_rank(comm);
}

static void test_absent_ranks_are_named_with_tensors(void) {
  run_ranks(2, run_absent, NULL);
}

int main(void) {
  RUN(test_stalls_name_tensors_and_ranks);
  RUN(test_a_name_that_has_failed_stalls_as_others);
  RUN(test_ranks_without_submissions_are_stalled_for);
  RUN(test_absent_ranks_are_named_with_tensors);
  return 0;
}
