/* SPDX-License-Identifier: Apache-2.0
 *
 * A reducer of tensors on GPUs: sums that are fused, groups, factors, broadcasts, streams, ranks that have joined; which
 * path the device takes; and what is refused.
 */
#include <sys/wait.h>

#include "gpu_reducers.h"

enum { NAMES = 40 };
static const ring_device_path paths[] = {RING_DEVICE_NCCL, RING_DEVICE_HOST};
#define ON_BOTH_PATHS(size, function)                                                              \
  for (size_t p = 0; p < sizeof paths / sizeof paths[0]; p++)                                      \
  RUN_COMMS(size, function, (ring_device_path[1]){paths[p]})

static float sum_of_ranks(int size) {
  return (float)(size * (size + 1)) / 2;
}

static void expect_path(ring_reducer *reducer, ring_device_path path) {
  ring_device_explanation explanation;
  CHECK_INT(ring_reducer_explain_device(reducer, &explanation), RING_OK);
  CHECK_INT(explanation.path, path);
}

/* ---- Reductions ---------------------------------------------------------------------------- */

/* Each rank submits in another order, beside tensors of the host. All names of a cycle are a few runs. */
static void submit_all(ring_reducer *reducer, int rank, float *const *memory, float *host,
                       const int64_t *counts, ring_submission **submissions) {
  char name[32];
  for (int i = 0; i < NAMES; i++) {
    int which = (i + rank) % NAMES;
    snprintf(name, sizeof name, "gradient.%d", which);
    const ring_operation operation = gpu_sum_of(name, memory[which], &counts[which]);
    submissions[which] = submit(reducer, &operation);
  }
  const ring_operation operation = sum_of("host", host, &counts[0]);
  submissions[NAMES] = submit(reducer, &operation);
}

static void run_sums(ring_comm *comm, void *shared) {
  const ring_device_path path = *(ring_device_path *)shared;
  const int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  ring_reducer_counters counters;
  ring_submission *submissions[NAMES + 1];
  ring_device_explanation explanation;
  int64_t counts[NAMES];
  float *memory[NAMES], host[1];
  ring_reducer *reducer = gpu_reducer_of(comm, path);
  CHECK_INT(ring_reducer_explain_device(reducer, &explanation), RING_INVALID);
  for (int i = 0; i < NAMES; i++) {
    counts[i] = i == 0 ? 1 : i * 97;
    memory[i] = gpu_floats(counts[i], (float)rank + 1);
  }
  for (int step = 0; step < 3; step++) {
    host[0] = 1;
    submit_all(reducer, rank, memory, host, counts, submissions);
    for (int i = 0; i <= NAMES; i++) finish_well(submissions[i]);
    CHECK(host[0] == (float)size);
  }
  for (int i = 0; i < NAMES; i++) {
    expect_floats(memory[i], counts[i], sum_of_ranks(size) * (float)(size * size));
    gpu_free(memory[i]);
  }
  ring_reducer_counters_read(reducer, &counters);
  CHECK(counters.operations == 3 * (NAMES + 1));
  CHECK(counters.gpu_runs > 0 && counters.gpu_runs < counters.runs);
  CHECK(counters.runs < counters.operations);
  expect_path(reducer, path);
  CHECK_INT(ring_reducer_explain_device(reducer, &explanation), RING_OK);
  CHECK(explanation.launches > 0); /* short tensors are packed */
  CHECK_INT(explanation.calls, counters.gpu_runs);
  end_gpu_reducer(reducer, RING_OK);
}

static void test_sums(void) {
  ON_BOTH_PATHS(most_ranks(), run_sums);
  ON_BOTH_PATHS(1, run_sums);
}

/* Groups of two dtypes, of which the host reduces one; factors; another output. */
static void run_groups(ring_comm *comm, void *shared) {
  const int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  static const int64_t four = 4;
  const int16_t shorts[2] = {(int16_t)(rank + 1), 7};
  int16_t sums[2];
  ring_reducer *reducer = gpu_reducer_of(comm, *(ring_device_path *)shared);
  float *floats = gpu_floats(8, (float)rank + 1), *out = gpu_floats(8, 0);
  int16_t *words = gpu_copy(shorts, sizeof shorts);
  const ring_buffer buffers[2] = {{floats, out, 8}, {words, words, 2}};
  const ring_dtype dtypes[2] = {RING_FLOAT32, RING_INT16};
  ring_operation group = gpu_sum_of("group", NULL, NULL);
  group.kind = RING_OPERATION_ALLREDUCE_GROUP;
  group.dimensions = 0;
  group.buffers = buffers;
  group.buffer_count = 2;
  group.dtypes = dtypes;
  finish_well(submit(reducer, &group));
  expect_floats(out, 8, sum_of_ranks(size));
  gpu_get(sums, words, sizeof sums);
  CHECK(sums[0] == sum_of_ranks(size) && sums[1] == 7 * size);
  ring_operation scaled = gpu_sum_of("scaled", floats, &four);
  scaled.output = out;
  scaled.prescale = 0.5;
  scaled.postscale = 4;
  finish_well(submit(reducer, &scaled));
  expect_floats(out, 4, 2 * sum_of_ranks(size));
  scaled.op = RING_MAX; /* by kernels, or the host */
  finish_well(submit(reducer, &scaled));
  expect_floats(out, 4, 2 * (float)size);
  expect_floats(floats, 8, (float)rank + 1);
  gpu_free(floats);
  gpu_free(out);
  gpu_free(words);
  end_gpu_reducer(reducer, RING_OK);
}

static void test_groups_and_factors(void) {
  ON_BOTH_PATHS(most_ranks(), run_groups);
}

/* The root has one array, or two. */
static void run_broadcasts(ring_comm *comm, void *shared) {
  const int rank = ring_comm_rank(comm);
  static const int64_t count = 1000;
  ring_reducer *reducer = gpu_reducer_of(comm, *(ring_device_path *)shared);
  float *memory = gpu_floats(count, (float)rank + 5), *out = gpu_floats(count, 0);
  ring_operation operation = gpu_sum_of("weights", memory, &count);
  operation.kind = RING_OPERATION_BROADCAST;
  operation.root = 1;
  if (rank == 1) operation.output = NULL;
  finish_well(submit(reducer, &operation));
  expect_floats(memory, count, 6);
  operation.output = out;
  finish_well(submit(reducer, &operation));
  expect_floats(out, count, 6);
  gpu_free(memory);
  gpu_free(out);
  end_gpu_reducer(reducer, RING_OK);
}

static void test_broadcasts(void) {
  ON_BOTH_PATHS(most_ranks(), run_broadcasts);
}

/* ---- Streams ------------------------------------------------------------------------------- */

/* Inputs are written by work that is on the user's stream, behind long work. Other names are not held up by it on the
 * host, and the results are there for any stream. */
static void run_streams(ring_comm *comm, void *shared) {
  enum { LONG = 64 << 20 };
  static const int64_t count = 4096;
  const int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  ring_cuda_stream stream;
  static float values[4096];
  ring_reducer *reducer = gpu_reducer_of(comm, *(ring_device_path *)shared);
  uint8_t *room = gpu_alloc(LONG), *source = calloc(1, LONG);
  float *memory = gpu_floats(count, -1);
  CHECK_INT(gpu.cuda.stream_create(&stream, RING_CUDA_STREAM_NON_BLOCKING), 0);
  for (int step = 0; step < 5; step++) {
    for (int i = 0; i < count; i++) values[i] = (float)(rank + step);
    CHECK_INT(gpu.cuda.copy_up((ring_cuda_memory)(uintptr_t)room, source, LONG, stream), 0);
    CHECK_INT(gpu.cuda.copy_up((ring_cuda_memory)(uintptr_t)memory, values, sizeof values, stream),
              0);
    ring_operation operation = gpu_sum_of("late", memory, &count);
    operation.stream = stream;
    finish_well(submit(reducer, &operation));
    expect_floats(memory, count, sum_of_ranks(size) + (float)(size * (step - 1)));
  }
  CHECK_INT(gpu.cuda.stream_destroy(stream), 0);
  gpu_free(room);
  gpu_free(memory);
  free(source);
  end_gpu_reducer(reducer, RING_OK);
}

static void test_streams(void) {
  ON_BOTH_PATHS(most_ranks(), run_streams);
}

/* ---- Ranks that have joined ---------------------------------------------------------------- */

/* Rank 0 has joined before it knows of a GPU. */
static void run_join(ring_comm *comm, void *shared) {
  const int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  static const int64_t short_one = 3, long_one = 5000;
  int last;
  ring_reducer *reducer = gpu_reducer_of(comm, *(ring_device_path *)shared);
  if (rank > 0) {
    float *one = gpu_floats(short_one, (float)rank + 1), *two = gpu_floats(long_one, 1);
    ring_operation operations[2] = {gpu_sum_of("short", one, &short_one),
                                    gpu_sum_of("long", two, &long_one)};
    ring_submission *submissions[2];
    for (int step = 0; step < 2; step++) {
      for (int i = 0; i < 2; i++) submissions[i] = submit(reducer, &operations[i]);
      for (int i = 0; i < 2; i++) finish_well(submissions[i]);
    }
    expect_floats(one, short_one, (sum_of_ranks(size) - 1) * (float)(size - 1));
    expect_floats(two, long_one, (float)((size - 1) * (size - 1)));
    operations[0].name = "weights";
    operations[0].kind = RING_OPERATION_BROADCAST;
    operations[0].root = 1;
    finish_well(submit(reducer, &operations[0]));
    operations[0].root = 0;
    finish_with(submit(reducer, &operations[0]), RING_MISMATCH, "rank 0 (127.0.0.1), has joined");
    gpu_free(one);
    gpu_free(two);
  }
  CHECK_INT(ring_reducer_join(reducer, &last), RING_OK);
  CHECK(last > 0);
  float *memory = gpu_floats(short_one, 1);
  const ring_operation operation = gpu_sum_of("short", memory, &short_one);
  finish_well(submit(reducer, &operation));
  expect_floats(memory, short_one, (float)size);
  gpu_free(memory);
  end_gpu_reducer(reducer, RING_OK);
}

static void test_joins(void) {
  ON_BOTH_PATHS(most_ranks(), run_join);
}

/* ---- What the ranks have ------------------------------------------------------------------- */

static int reported;

static void count_reported(void *arg, const char *message) {
  (void)arg;
  reported += strncmp(message, "arrays on GPUs go through the host, which is slow: ", 51) == 0;
}

/* Rank 1 has no NCCL, or no kernels: results are the same. */
static void run_lacking(int rank, int size, void *shared) {
  static const int64_t count = 10;
  const bool lacks_nccl = *(bool *)shared;
  ring_options options = rank_options(rank, size);
  ring_reducer_options settings = RING_REDUCER_OPTIONS_INIT;
  ring_device_options device = device_options(RING_DEVICE_AUTO);
  options.log = count_reported;
  if (rank == 1 && lacks_nccl) device.nccl = "/no/such/libnccl.so.2";
  if (rank == 1 && !lacks_nccl) device.nvrtc = "/nonexistent.so";
  settings.device = &device;
  ring_comm *comm = open_with(&options);
  use_gpu(rank);
  ring_reducer *reducer = reducer_of(comm, &settings);
  float *one = gpu_floats(count, (float)rank + 1), *two = gpu_floats(count, 1);
  ring_operation operation = gpu_sum_of("one", one, &count);
  ring_submission *first = submit(reducer, &operation);
  operation = gpu_sum_of("two", two, &count);
  finish_well(submit(reducer, &operation));
  finish_well(first);
  expect_floats(one, count, sum_of_ranks(size));
  expect_floats(two, count, (float)size);
  expect_path(reducer, lacks_nccl ? RING_DEVICE_HOST : RING_DEVICE_NCCL);
  CHECK_INT(reported, lacks_nccl && rank == 0);
  gpu_free(one);
  gpu_free(two);
  end_gpu_reducer(reducer, RING_OK);
  close_rank(comm);
}

static void test_without_nccl_or_kernels(void) {
  RUN_RANKS(3, run_lacking, (bool[1]){true});
  RUN_RANKS(3, run_lacking, (bool[1]){false});
}

/* Rank 1 has no GPU, and has joined: the operations of the other ranks fail on GPUs, and work on the host. */
static void run_without_gpu(ring_comm *comm, void *shared) {
  static const int64_t count = 2;
  (void)shared;
  if (ring_comm_rank(comm) == 1) CHECK_INT(setenv("CUDA_STUB_FAILS", "init", 1), 0);
  const ring_device_options device = device_options(RING_DEVICE_AUTO);
  ring_reducer_options options = RING_REDUCER_OPTIONS_INIT;
  options.device = &device;
  if (ring_comm_rank(comm) != 1) use_gpu(ring_comm_rank(comm));
  ring_reducer *reducer = reducer_of(comm, &options);
  if (ring_comm_rank(comm) != 1) {
    float *memory = gpu_floats(count, 1);
    const ring_operation operation = gpu_sum_of("sum", memory, &count);
    for (int i = 0; i < 2; i++)
      finish_with(submit(reducer, &operation), RING_UNSUPPORTED,
                  "rank 1 (127.0.0.1) has no GPU for a device: cuInit failed with 100");
    expect_works(reducer, "host", 2);
    gpu_free(memory);
  }
  CHECK_INT(ring_reducer_join(reducer, NULL), RING_OK);
  CHECK_INT(ring_reducer_close(reducer), RING_OK);
  ring_reducer_free(reducer);
}

static void test_a_rank_without_a_gpu(void) {
  run_comms(3, run_without_gpu, NULL);
}

/* ---- Refusals ------------------------------------------------------------------------------ */

/* Rank 1 submits memory of the host: each rank gets an error, and the name works afterwards. */
static void run_kinds(ring_comm *comm, void *shared) {
  static const int64_t count = 4;
  const int size = ring_comm_size(comm);
  float host[4] = {1, 1, 1, 1};
  ring_reducer *reducer = gpu_reducer_of(comm, *(ring_device_path *)shared);
  float *memory = gpu_floats(count, 1);
  for (int known = 0; known < 2; known++) {
    const ring_operation on_gpu = gpu_sum_of("sum", memory, &count);
    const ring_operation on_host = sum_of("sum", host, &count);
    ring_submission *submission = submit(reducer, ring_comm_rank(comm) == 1 ? &on_host : &on_gpu);
    CHECK_INT(ring_submission_wait(submission), RING_MISMATCH);
    CHECK_CONTAINS(ring_submission_error(submission)->message,
                   "rank 0 (127.0.0.1) submitted allreduce of float32 [4] on GPUs, sum; rank 1 "
                   "(127.0.0.1) submitted allreduce of float32 [4], sum");
    ring_submission_free(submission);
    expect_works(reducer, "host", size);
    finish_well(submit(reducer, &on_gpu));
    expect_floats(memory, count, (float)(known == 0 ? size : size * size));
  }
  gpu_free(memory);
  end_gpu_reducer(reducer, RING_OK);
}

static void test_ranks_with_other_memory(void) {
  ON_BOTH_PATHS(most_ranks(), run_kinds);
}

/* These errors are local: the ranks go on. */
static void run_refusals(ring_comm *comm, void *shared) {
  static const int64_t count = 4;
  ring_reducer *reducer = gpu_reducer_of(comm, *(ring_device_path *)shared);
  float *memory = gpu_floats(16, 1);
  ring_operation operation = gpu_sum_of("sum", memory, &count);
  operation.kind = RING_OPERATION_REDUCE_SCATTER;
  refuse(reducer, &operation, RING_UNSUPPORTED, "\"sum\": reduce_scatter takes no arrays on GPUs");
  operation.kind = RING_OPERATION_ALLGATHER;
  refuse(reducer, &operation, RING_UNSUPPORTED, "\"sum\": allgather takes no arrays on GPUs");
  operation = gpu_sum_of("sum", memory, &count);
  operation.dtype = RING_INT32;
  operation.prescale = 2;
  refuse(reducer, &operation, RING_UNSUPPORTED, "\"sum\": int32 on GPUs has no factors");
  operation = gpu_sum_of("sum", memory, &count);
  operation.memory = (ring_memory)3;
  refuse(reducer, &operation, RING_INVALID, "3 is not a kind of memory");
  operation = gpu_sum_of("sum", NULL, &count);
  refuse(reducer, &operation, RING_INVALID, "input is NULL");
  operation = gpu_sum_of("sum", memory, &count);
  finish_well(submit(reducer, &operation));
  gpu_free(memory);
  end_gpu_reducer(reducer, RING_OK);
}

static void test_refusals(void) {
  ON_BOTH_PATHS(2, run_refusals);
}

/* Memory of another GPU, and a stream that captures a graph. */
static void run_refusals_of_cuda(ring_comm *comm, void *shared) {
  static const int64_t count = 4;
  ring_cuda_context other;
  ring_cuda_stream stream;
  ring_reducer *reducer = gpu_reducer_of(comm, *(ring_device_path *)shared);
  float *memory = gpu_floats(16, 1);
  ring_operation operation = gpu_sum_of("sum", memory, &count);
  CHECK_INT(gpu.cuda.stream_create(&stream, 0), 0);
  operation.stream = stream;
  gpu.capture(stream, 1);
  refuse(reducer, &operation, RING_UNSUPPORTED, "\"sum\": the stream captures a graph");
  gpu.capture(stream, 0);
  finish_well(submit(reducer, &operation));
  CHECK_INT(gpu.cuda.context_retain(&other, 5), 0);
  CHECK_INT(gpu.cuda.context_push(other), 0);
  float *elsewhere = gpu_floats(16, 1);
  operation = gpu_sum_of("sum", elsewhere, &count);
  refuse(reducer, &operation, RING_INVALID, "\"sum\": memory is on GPU 5, and earlier memory on");
  gpu_free(elsewhere);
  CHECK_INT(gpu.cuda.context_pop(&other), 0);
  CHECK_INT(gpu.cuda.context_release(5), 0);
  operation = gpu_sum_of("sum", memory, &count);
  finish_well(submit(reducer, &operation));
  CHECK_INT(gpu.cuda.stream_destroy(stream), 0);
  gpu_free(memory);
  end_gpu_reducer(reducer, RING_OK);
}

static void test_refusals_of_cuda(void) {
  ON_BOTH_PATHS(2, run_refusals_of_cuda);
}

static void run_options(ring_comm *comm, void *shared) {
  (void)shared;
  ring_reducer *reducer;
  ring_device_options device = device_options((ring_device_path)9);
  ring_reducer_options options = RING_REDUCER_OPTIONS_INIT;
  options.device = &device;
  CHECK_INT(ring_reducer_open(comm, &options, &reducer), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "the path of the device does not exist");
  device.struct_size = 3;
  CHECK_INT(ring_reducer_open(comm, &options, &reducer), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "RING_DEVICE_OPTIONS_INIT");
}

static void test_options(void) {
  run_comms(2, run_options, NULL);
}

/* A forked child only frees. */
static void run_fork(ring_comm *comm, void *shared) {
  static const int64_t count = 4;
  int status;
  ring_reducer *reducer = gpu_reducer_of(comm, *(ring_device_path *)shared);
  float *memory = gpu_floats(count, 1);
  const ring_operation operation = gpu_sum_of("sum", memory, &count);
  finish_well(submit(reducer, &operation));
  pid_t child = fork_for(20);
  if (child == 0) {
    ring_submission *submission;
    bool refuses = ring_reducer_submit(reducer, &operation, &submission) == RING_INVALID;
    ring_reducer_free(reducer);
    _exit(refuses ? 0 : 1);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_INT(status, 0);
  finish_well(submit(reducer, &operation));
  gpu_free(memory);
  end_gpu_reducer(reducer, RING_OK);
}

static void test_forked_children_only_free(void) {
  ON_BOTH_PATHS(2, run_fork);
}

int main(void) {
  RUN(test_sums);
  RUN(test_groups_and_factors);
  RUN(test_broadcasts);
  RUN(test_streams);
  RUN(test_joins);
  RUN_ON_STUBS(test_without_nccl_or_kernels);
  RUN_ON_STUBS(test_a_rank_without_a_gpu);
  RUN(test_ranks_with_other_memory);
  RUN(test_refusals);
  RUN_ON_STUBS(test_refusals_of_cuda);
  RUN(test_options);
  RUN(test_forked_children_only_free);
  return 0;
}
